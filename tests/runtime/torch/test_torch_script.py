"""Scripts of all ranks of a program, played against a network that is as unkind as messages may be."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from samples.runtime_programs import exchange
from treadle.planning import program_of, solve
from treadle.program.message_levels import dataflow
from treadle.program.passes import merge_levels
from treadle.program.program import Buffer, Operation, OperationKind, Program, program_from_operations
from treadle.runtime.data import ElementType, Reduction, make_pattern
from treadle.runtime.memory import Layout, allocate, count_wrong, fill_input
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind

pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

from treadle.runtime import rank_script as script_module
from treadle.runtime.rank_script import ActionKind, PreparedRank, Script, Span


class Network:
    """Messages that pass when both ends are there: at once, or as late as a wait allows.

    A send is never complete before its receive is posted, so that nothing can lean on buffers.
    """

    def __init__(self, *, is_late: bool) -> None:
        self._is_late = is_late
        self._ends: dict[tuple[int, int, int], list[NDArray[Any] | None]] = {}

    def offer(self, key: tuple[int, int, int], end: int, data: NDArray[Any]) -> None:
        """Add the source (0) or the target (1) of a message from key[0] to key[1] with tag key[2]."""
        ends = self._ends.setdefault(key, [None, None])
        assert ends[end] is None, "two messages of the same tag are under way between two ranks"
        ends[end] = data
        if not self._is_late:
            self._pass(key)

    def is_done(self, key: tuple[int, int, int]) -> bool:
        """Whether a message has passed; it passes now if it can."""
        return key not in self._ends or self._pass(key)

    def _pass(self, key: tuple[int, int, int]) -> bool:
        source, target = self._ends[key]
        if source is None or target is None:
            return False
        assert len(source) == len(target)
        target[:] = source
        del self._ends[key]
        return True


def play(script: Script, rank: int, areas: list[NDArray[Any]], network: Network) -> Iterator[bool]:
    """Carry out one rank's actions; yields whenever it has to wait."""

    def view(span: Span) -> NDArray[Any]:
        return areas[span.area][span.start : span.end]

    keys: dict[int, tuple[int, int, int]] = {}
    for action in script.actions:
        if action.kind is ActionKind.WAIT:
            while not network.is_done(keys[action.handle]):
                yield False
            del keys[action.handle]
        elif action.kind is ActionKind.RECEIVE:
            keys[action.handle] = (action.peer, rank, action.tag)
            network.offer(keys[action.handle], 1, view(action.target))
        elif action.kind in (ActionKind.SEND, ActionKind.SEND_COPY):
            keys[action.handle] = (rank, action.peer, action.tag)
            source = view(action.source)
            network.offer(
                keys[action.handle], 0, source.copy() if action.kind == ActionKind.SEND_COPY else source
            )
        elif action.kind is ActionKind.REDUCE:
            view(action.target)[:] = view(action.source) + view(action.arrived)
        else:
            view(action.target)[:] = view(action.source)
        yield True
    assert not keys, "messages were left open"


def finish(ranks: list[Iterator[bool]], *, lazy: int) -> None:
    """Run all ranks to their ends, the lazy one an action at a time when all others are stuck."""
    playing = dict(enumerate(ranks))
    while playing:
        for rank in sorted(playing, key=lambda rank: rank == lazy):
            result = next(playing[rank], None)
            if result is None:
                del playing[rank]
            if result is not False:
                break
        else:
            pytest.fail(f"ranks {sorted(playing)} wait for one another")


def wrong_elements(program: Program, count: int, *, slice_bytes: int, spare_bytes: int, is_late: bool) -> int:
    """Wrong elements of all ranks after one run; fails if the ranks wait for one another for ever."""
    layout = Layout(program, count)
    pattern = make_pattern(
        program.n_ranks,
        count,
        element=ElementType.INT32,
        reduction=Reduction.SUM,
        reduces=program.kind.reduces,
        seed=3,
    )
    network = Network(is_late=is_late)
    memories, ranks = [], []
    for rank in range(program.n_ranks):
        memory = allocate(layout, rank, np.dtype(np.int32))
        fill_input(rank, memory, pattern)
        made = PreparedRank(program, rank).script(
            count, element_bytes=4, slice_bytes=slice_bytes, spare_bytes=spare_bytes
        )
        scratch = memory.arrays[Buffer.SCRATCH]
        assert made.scratch_elements == len(scratch)
        spare = np.full(made.spare_elements, -1, dtype=np.int32)
        packed = np.full(made.packed_elements, -1, dtype=np.int32)
        areas = [memory.arrays[Buffer.INPUT], memory.arrays[Buffer.OUTPUT], scratch, spare, packed]
        memories.append(memory)
        ranks.append(play(made, rank, areas, network))
    finish(ranks, lazy=0)
    return sum(count_wrong(layout, rank, memory, pattern) for rank, memory in enumerate(memories))


@pytest.fixture(params=[0, 2**17], ids=["waits for sends", "copies"])
def eager(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Bytes up to which sends go from copies."""
    monkeypatch.setattr(script_module, "EAGER_BYTES", request.param)
    return int(request.param)


PLANS = [
    *(("torus:2,3", kind.value, None) for kind in SPANNING_KINDS),
    ("torus:2,3", "alltoall", None),
    ("hypercube:3", "allreduce", "bfb"),
    ("ring:5", "allreduce", "ring"),
    ("dgx_a100:1", "allreduce", None),
]


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize(("fabric", "kind", "algorithm"), PLANS)
def test_plans_run_without_buffered_sends(
    fabric: str, kind: str, algorithm: str | None, is_late: bool, eager: int
) -> None:
    in_place = kind != "alltoall" and is_late == bool(eager)  # every two of the three meet
    program = program_of(solve(fabric, kind, algorithm=algorithm).plan, 0, in_place=in_place)
    for count, slice_bytes, spare_bytes in ((5, 64, 0), (203, 2**20, 2**20), (203, 64, 300)):
        wrong = wrong_elements(
            program, count, slice_bytes=slice_bytes, spare_bytes=spare_bytes, is_late=is_late
        )
        assert wrong == 0, (count, in_place, slice_bytes)


@pytest.mark.parametrize("is_late", [False, True])
def test_what_needs_buffered_sends_is_sent_from_copies(
    is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script_module, "EAGER_BYTES", 0)
    program = exchange(4, in_place=True)
    made = PreparedRank(program, 0).script(8, element_bytes=4, slice_bytes=2**20, spare_bytes=0)
    assert any(action.kind is ActionKind.SEND_COPY for action in made.actions)
    assert wrong_elements(program, 8, slice_bytes=2**20, spare_bytes=2**10, is_late=is_late) == 0


def sent(part: PreparedRank, count: int, *, slice_bytes: int = 2**20) -> int:
    """Messages that a rank sends."""
    made = part.script(count, element_bytes=4, slice_bytes=slice_bytes, spare_bytes=2**20)
    return sum(action.kind in (ActionKind.SEND, ActionKind.SEND_COPY) for action in made.actions)


@pytest.mark.parametrize(
    ("fabric", "kind", "algorithm"),
    [
        ("hypercube:3", "alltoall", None),
        ("de_bruijn:2,3", "alltoall", "pipelined"),
        ("ring:8", "allreduce", None),
    ],
)
def test_a_rank_sends_one_small_message_to_a_peer_in_a_level(
    fabric: str, kind: str, algorithm: str | None
) -> None:
    program = program_of(solve(fabric, kind, algorithm=algorithm).plan, 0)
    level, is_send = dataflow(program).level, program.operation_kind == OperationKind.SEND
    joined = merge_levels(program)
    fewer = 0
    for rank in range(program.n_ranks):
        own = is_send & (program.operation_rank == rank)
        part = PreparedRank(program, rank)
        pairs = set(zip(program.peer[own].tolist(), level[own].tolist(), strict=True))
        assert sent(part, 1024) == len(pairs)
        fewer += int(own.sum()) - len(pairs)
        # chunks of more than 128 KB go by themselves, those that are adjacent together
        long = (joined.operation_kind == OperationKind.SEND) & (joined.operation_rank == rank)
        assert sent(part, 2**24, slice_bytes=2**30) == int(long.sum())
    assert fewer > 0


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("most", [64, 400])
@pytest.mark.usefixtures("eager")
def test_packed_messages_fill_up(most: int, is_late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_module, "PACKED_BYTES", most)
    monkeypatch.setattr(script_module, "PIECE_BYTES", 100)
    for fabric, kind in (("hypercube:3", "alltoall"), ("ring:5", "allreduce"), ("torus:2,3", "allgather")):
        program = program_of(solve(fabric, kind).plan, 0)
        for count in (7, 203):
            wrong = wrong_elements(program, count, slice_bytes=2**20, spare_bytes=300, is_late=is_late)
            assert wrong == 0


def test_spare_memory_stays_within_its_limit() -> None:
    program = program_of(solve("complete:6", "reduce-scatter").plan, 0)
    part = PreparedRank(program, 0)
    wide = part.script(6000, element_bytes=4, slice_bytes=400, spare_bytes=2**20)
    narrow = part.script(6000, element_bytes=4, slice_bytes=400, spare_bytes=1000)
    assert wide.spare_elements == 5 * 1000
    assert narrow.spare_elements <= 250
    assert len(narrow.actions) == len(wide.actions)


@pytest.mark.parametrize("kind", [OperationKind.RECEIVE, OperationKind.RECEIVE_REDUCE])
def test_nothing_is_written_over_before_it_has_been_sent(
    kind: OperationKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 1 is slow to take chunk 0 of rank 0, which meanwhile gets another chunk 0 from rank 2."""
    monkeypatch.setattr(script_module, "EAGER_BYTES", 0)
    send, receive, scratch = OperationKind.SEND, OperationKind.RECEIVE, Buffer.SCRATCH
    program = program_from_operations(
        CollectiveKind.ALLREDUCE,
        [
            [Operation(send, 0, 1, peer=1), Operation(kind, 0, 1, peer=2, waits=(0,))],
            [Operation(send, 1, 1, peer=2), Operation(receive, 0, 1, peer=0, target=scratch)],
            [
                Operation(receive, 1, 1, peer=1, target=scratch),
                Operation(send, 0, 1, peer=0, waits=(0,)),
            ],
        ],
        n_chunks=2,
        shard_offset=[0, 2, 2, 2],
        in_place=True,
    )
    network, ranks, scratches = Network(is_late=True), [], []
    for rank in range(3):
        made = PreparedRank(program, rank).script(2, element_bytes=4, slice_bytes=2**20, spare_bytes=2**10)
        assert all(action.kind is not ActionKind.SEND_COPY for action in made.actions)
        whole, spare = np.full(2, 10 + rank), np.zeros(made.spare_elements, dtype=np.int64)
        scratches.append(np.zeros(2, dtype=np.int64))
        ranks.append(play(made, rank, [whole, whole, scratches[rank], spare], network))
        assert made.packed_elements == 0
    finish(ranks, lazy=1)
    assert scratches[1][0] == 10
