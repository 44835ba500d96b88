"""Small MSCCL++ plans at work, operation by operation: what is right, and what one change makes wrong."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

import pytest

from treadle.errors import FormatError
from treadle.formats.mscclpp import interpreter_machine
from treadle.formats.mscclpp.interpreter import _shapes
from treadle.formats.mscclpp.interpreter_blocks import BlockAtWork, News, merge
from treadle.formats.mscclpp.interpreter_machine import Machine, _sum
from treadle.formats.mscclpp.interpreter_packets import _ends
from treadle.formats.mscclpp.interpreter_slices import Scale, is_sum, unrolled
from treadle.formats.mscclpp.reader import BufferChunks, ExecutionPlan, MscclppOperation

Ops = list[MscclppOperation]


def part(rank: int, letter: str, index: int = 0, size: int = 1, how: str = "") -> BufferChunks:
    """Chunks of a buffer: this rank's own, of rank 9 and so on another's."""
    return BufferChunks((rank,), letter, index, size, how or "local")


def there(rank: int, letter: str, index: int = 0, size: int = 1) -> BufferChunks:
    """Chunks of another rank's buffer."""
    return part(rank, letter, index, size, "remote")


def op(name: str, *channels: tuple[str, int], numbers: tuple[int, ...] = ()) -> MscclppOperation:
    """An operation without data."""
    return MscclppOperation(name, name, channels, numbers=numbers)


def move(
    name: str, source: BufferChunks, target: BufferChunks, *channels: tuple[str, int]
) -> MscclppOperation:
    """An operation from a place to another."""
    return MscclppOperation(name, name, channels, (source,), (target,))


def plan_of(
    kind: str, sizes: list[tuple[int, int, int]], blocks: list[list[Ops]], **more: object
) -> ExecutionPlan:
    """A plan with a channel of each type between all ranks, in their order."""
    n = len(sizes)
    others = [[peer for peer in range(n) if peer != rank] for rank in range(n)]
    plan = ExecutionPlan(kind, False)
    plan.sizes = [dict(zip("ios", one, strict=True)) for one in sizes]
    plan.peers = [{"memory": list(one), "port": list(one)} for one in others]
    plan.blocks = blocks
    plan.semaphores = [[] for _ in range(n)]
    for key, value in more.items():
        setattr(plan, key, value)
    return plan


MEMORY, PORT = ("memory", 0), ("port", 0)


def gathering(rank: int) -> Ops:
    """Half of an allgather of two: greet, copy what is one's own, put it to the other, tell and wait."""
    return [
        op("rlxsignal", MEMORY),
        op("rlxwait", MEMORY),
        op("nop"),
        move("copy", part(rank, "i"), part(rank, "o", rank)),
        move("put", part(rank, "i"), there(1 - rank, "o", rank), MEMORY),
        op("nop"),
        op("signal", MEMORY),
        op("wait", MEMORY),
    ]


def faults(first: Ops, second: Ops | None = None) -> list[str]:
    """What is wrong with an allgather of two."""
    blocks = [[first], [gathering(1) if second is None else second]]
    return Machine(plan_of("allgather", [(1, 2, 0)] * 2, blocks), 0).run()


def changed(place: int, *operations: MscclppOperation) -> Ops:
    """Rank 0's operations with others in the place of one."""
    found = gathering(0)
    found[place : place + 1] = operations
    return found


COPY, PUT = gathering(0)[3:5]


@pytest.mark.parametrize(
    ("first", "found"),
    [
        (gathering(0), []),
        (changed(5), ["put: touches gpu 1's memory, which may have left by then"]),
        (changed(6, op("rlxsignal", MEMORY)), ["put: touches gpu 1's memory, which may have left by then"]),
        (changed(1), ["put: touches gpu 1's memory before that gpu is there"]),
        (changed(2), ["put: touches gpu 1's memory before that gpu is there"]),
        (changed(0), ["wait: wait waits for ever"]),  # rank 1 takes the word of the put for the greeting
        (changed(3), ["gpu 0: 1 output chunks wrong, first 0"]),
        (changed(4), ["gpu 1: 1 output chunks wrong, first 0"]),
        (changed(6), ["wait: wait waits for ever"]),
        (changed(6, *[op("signal", MEMORY)] * 3), ["gpu 1: 2 signals on memory channel 0 nobody waits for"]),
        (changed(7, *[op("wait", MEMORY)] * 2), ["wait: wait waits for ever"]),
        (changed(7, op("wait", MEMORY, MEMORY)), ["wait: wait waits for ever"]),
        (
            changed(4, replace(PUT, targets=(there(1, "o", 1),))),
            ["put: races on chunk 1 of buffer o of gpu 1"],
        ),
        (changed(4, PUT, PUT), ["put: races on chunk 0 of buffer o of gpu 1"]),
        (changed(4, PUT, op("nop"), PUT), []),
        (changed(4, PUT, op("flush", MEMORY), PUT), ["put: races on chunk 0 of buffer o of gpu 1"]),
        (
            changed(3, replace(COPY, sources=(part(0, "o", 1),))),
            ["copy: races on chunk 1 of buffer o of gpu 0"],
        ),
        (changed(3, replace(COPY, sources=(part(0, "s"),))), ["copy: reads chunk 0 of gpu 0 undefined"]),
        (changed(3, replace(COPY, targets=(part(0, "o", 0, -1),))), ["past"]),
        (changed(3, replace(COPY, targets=(part(0, "o", 0, 2),))), ["copy: copy does not take these"]),
        (changed(3, replace(COPY, sources=(), targets=())), ["copy: copy does not take these"]),
        (
            changed(3, replace(COPY, sources=(part(0, "i", 0, 0),), targets=(part(0, "o", 0, 0),))),
            ["gpu 0: 1 output chunks wrong, first 0"],  # a block's part may be empty
        ),
        (changed(4, replace(PUT, targets=(part(0, "o", 0),))), ["put: put does not take these"]),
        (changed(3, replace(COPY, targets=(there(1, "o"),))), ["copy: copy does not take these"]),
    ],
)
def test_an_allgather_of_two_and_what_one_change_makes_of_it(first: Ops, found: list[str]) -> None:
    made = faults(first)
    if found == ["past"]:
        assert made[0] == "copy: a slice lies past the end of the chunks"
    elif found and "does not take" in found[0]:
        assert made[0] == f"{found[0]} sources and targets"
    else:
        assert made == found


def ported(name: str, *after: MscclppOperation) -> list[str]:
    """The same by proxies: what rank 0 puts by a port, and what rank 1 does."""
    sides = []
    for rank in (0, 1):
        own = gathering(rank)[:4]
        put = move("pwsf", part(rank, "i"), there(1 - rank, "o", rank), PORT)
        own += [replace(put, name=name, where=name), *after] if rank == 0 else [put]
        sides.append([[*own, op("wait", PORT)]])
    return Machine(plan_of("allgather", [(1, 2, 0)] * 2, sides), 0).run()


def test_proxies_tell_by_their_signals_and_at_home_by_a_flush() -> None:
    assert ported("pwsf") == []
    reads = "gpu 0: may end while port channel 0 still reads its memory"
    assert ported("pws") == [reads]
    assert ported("put", op("signal", PORT)) == [reads]
    assert ported("put", op("rlxsignal", PORT)) == [
        "put: touches gpu 1's memory, which may have left by then",
        reads,
    ]
    assert ported("put", op("nop"), op("signal", MEMORY)) == ["wait: wait waits for ever"]
    overwritten = move("copy", part(0, "o"), part(0, "i"))
    assert ported("pws", op("nop"), overwritten) == ["copy: races on chunk 0 of buffer i of gpu 0"]
    assert ported("pwsf", op("nop"), overwritten) == []
    # without a nop neither the copy before nor the proxy is known to be over
    assert ported("pwsf", overwritten) == [
        f"copy: races on chunk 0 of buffer {side} of gpu 0" for side in "oi"
    ]


TO_SCRATCH = move("copy", part(0, "i"), part(0, "s"))
FROM_SCRATCH = move("copy", part(0, "s"), part(0, "o"))


def alone(blocks: list[Ops], semaphores: list[int] | None = None) -> list[str]:
    """What is wrong with the blocks of one rank, which copies its chunk by scratch."""
    plan = plan_of("allreduce", [(1, 1, 1)], [blocks], semaphores=[semaphores or []])
    return Machine(plan, 0).run()


def test_blocks_of_a_rank_meet_by_semaphores() -> None:
    release, acquire = (op(f"sem_{name}", numbers=(0,)) for name in ("release", "acquire"))
    first, second = [TO_SCRATCH, op("nop"), release], [acquire, op("nop"), FROM_SCRATCH]
    race = ["copy: races on chunk 0 of buffer s of gpu 0"]
    assert alone([first, second], [0]) == []
    assert alone([second, first], [0]) == []
    assert alone([first, second], [1]) == race
    assert alone([first, [acquire, *second]], [1]) == []
    assert alone([[TO_SCRATCH, release], second], [0]) == race
    assert alone([first, [acquire, FROM_SCRATCH]], [0]) == race
    assert alone([first, [acquire, *second]], [0]) == ["sem_acquire: sem_acquire waits for ever"]


def test_blocks_of_a_rank_meet_at_barriers() -> None:
    def meet(count: int, number: int = 4) -> MscclppOperation:
        return op("barrier", numbers=(number, count))

    assert alone([[TO_SCRATCH, meet(2)], [meet(2), FROM_SCRATCH]]) == []
    assert alone([[meet(2), FROM_SCRATCH], [TO_SCRATCH, meet(2)]]) == []
    assert alone([[TO_SCRATCH, meet(1)], [meet(1), FROM_SCRATCH]]) == [
        "copy: races on chunk 0 of buffer s of gpu 0"
    ]
    for number, count in ((4, 3), (5, 2)):
        assert (
            alone([[TO_SCRATCH, meet(count, number)], [meet(count), FROM_SCRATCH]])
            == ["barrier: barrier waits for ever"] * 2
        )
    again = [[TO_SCRATCH, meet(2), meet(2)], [meet(2), FROM_SCRATCH, meet(2)]]
    assert alone(again) == []


def test_lists_of_faults_and_turns_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(alone([[op("sem_acquire", numbers=(0,))]] * 25, [0])) == 20
    lost = [move("copy", part(0, "s"), part(0, "o"))] * 150
    assert len(alone([lost])) == 150
    wait = [op("sem_acquire", numbers=(0,)), op("sem_release", numbers=(0,))]
    assert interpreter_machine.MAX_TURNS == 100000000
    monkeypatch.setattr(interpreter_machine, "MAX_TURNS", 6)
    # of two blocks, three times: the third finds that nothing moves
    assert alone([wait, [TO_SCRATCH, op("nop"), FROM_SCRATCH, wait[1]]], [0]) == []
    monkeypatch.setattr(interpreter_machine, "MAX_TURNS", 5)
    with pytest.raises(FormatError, match="more than 5 turns of blocks: too large to verify"):
        alone([wait, [TO_SCRATCH, op("nop"), FROM_SCRATCH, wait[1]]], [0])


@pytest.mark.parametrize(
    ("kind", "rank", "wanted"),
    [
        ("allgather", 1, [{(0, 0): 1}, {(0, 1): 1}, {(1, 2): 1}, {(1, 3): 1}]),
        ("broadcast", 0, [{(1, place): 1} for place in range(4)]),
        ("alltoall", 1, [{(0, 2): 1}, {(0, 3): 1}, {(1, 2): 1}, {(1, 3): 1}]),
        ("reduce", 0, [None] * 4),
        ("reduce", 1, [{(0, place): 1, (1, place): 1} for place in range(4)]),
        ("allreduce", 0, [{(0, place): 1, (1, place): 1} for place in range(4)]),
        ("reducescatter", 1, [{(0, place): 1, (1, place): 1} for place in range(4, 8)]),
    ],
)
def test_what_output_must_hold(kind: str, rank: int, wanted: list[dict[tuple[int, int], int] | None]) -> None:
    """Two ranks of four output chunks; the root is rank 1."""
    share = {"allgather": 2, "reducescatter": 8}.get(kind, 4)
    machine = Machine(plan_of(kind, [(share, 4, 0)] * 2, [[], []]), 1)
    assert [machine._expected(rank, place) for place in range(4)] == wanted


@pytest.mark.parametrize(
    ("kind", "sizes", "in_place", "cells", "held"),
    [
        ("allgather", (2, 6), False, [("i", 1), ("o", 1)], {0: (2, 4), 1: (2, 5), 2: None}),
        ("allgather", (2, 6), True, [("i", 5), ("i", 1)], {3: None, 4: (2, 4), 5: (2, 5)}),
        ("reducescatter", (6, 2), True, [("i", 1), ("i", 5)], {0: (2, 0), 5: (2, 5), 6: None}),
        ("allreduce", (3, 3), True, [("i", 1), ("i", 1)], {0: (2, 0), 2: (2, 2), 3: None}),
        ("broadcast", (3, 3), False, [("i", 1), ("o", 1)], {0: None, 2: None}),
    ],
)
def test_where_chunks_lie_and_what_is_there_at_first(
    kind: str,
    sizes: tuple[int, int],
    in_place: bool,
    cells: list[tuple[str, int]],
    held: dict[int, tuple[int, int] | None],
) -> None:
    """Of rank 2 of three; the broadcast's root is rank 1."""
    machine = Machine(plan_of(kind, [(*sizes, 4)] * 3, [[]] * 3, in_place=in_place), 1)
    assert [machine._cell(2, letter, 1) for letter in "io"] == [(2, *cell) for cell in cells]
    assert machine._cell(2, "s", 3) == (2, "s", 3)
    for place, what in held.items():
        assert machine._held((2, "i", place)) == (None if what is None else {what: 1})
    assert machine._held((2, "o", 0)) is None


def test_sums_count_each_contribution() -> None:
    one, two = {(0, 1): 1}, {(0, 1): 2, (3, 1): 1}
    assert _sum([one]) is one
    assert _sum([one, two, one]) == {(0, 1): 4, (3, 1): 1}
    twice = MscclppOperation("re", "re", (), (part(0, "i"), part(0, "i")), (part(0, "o"),))
    assert alone([[twice]]) == ["gpu 0: 1 output chunks wrong, first 0"]


OWN, FAR = part(0, "i", 0, 2), there(1, "s", 4, 2)


@pytest.mark.parametrize(
    ("name", "sources", "targets", "is_one"),
    [
        ("re", (OWN, OWN), (OWN,), True),
        ("re", (OWN,), (OWN,), False),
        ("re", (OWN, OWN), (), False),
        ("re", (OWN, OWN), (OWN, FAR), False),
        ("re", (OWN, FAR), (OWN,), False),
        ("re", (OWN, part(0, "i", 0, 1)), (OWN,), False),
        ("re", (FAR, OWN), (OWN,), False),
        ("re", (OWN, OWN), (FAR,), False),
        ("res", (OWN, OWN, OWN), (OWN, FAR, FAR), True),
        ("res", (OWN, OWN), (OWN, OWN), False),
        ("res", (OWN, OWN), (OWN,), False),
        ("rre", (OWN, FAR, FAR), (OWN,), True),
        ("rre", (OWN, FAR, OWN), (OWN,), False),
        ("rres", (OWN, FAR), (OWN, FAR), True),
    ],
)
def test_sums_take_their_terms_where_they_say(
    name: str, sources: tuple[BufferChunks, ...], targets: tuple[BufferChunks, ...], is_one: bool
) -> None:
    assert is_sum(MscclppOperation(name, name, (), sources, targets)) is is_one


PACKET, OTHER = part(0, "s", 4, 2), part(0, "s", 8, 2)


@pytest.mark.parametrize(
    ("name", "sources", "targets", "taken"),
    [
        ("ppkt", (OWN,), (FAR,), ("i", "packets")),
        ("ppkt", (OWN,) * 8, (FAR,) * 8, ("i" * 8, ("packets") * 8)),
        ("ppkt", (OWN,) * 9, (FAR,) * 9, None),
        ("ppkt", (OWN, OWN), (FAR,), None),
        ("ppkt", (OWN, PACKET), (FAR, FAR), None),
        ("ppkt", (OWN,), (there(1, "o", 0, 2),), None),
        ("ppkt", (OWN,), (there(1, "s", 0, 1),), None),
        ("ppkt", (FAR,), (FAR,), None),
        ("rppkt", (PACKET,), (FAR, FAR), ("packets", "packetspackets")),
        ("rppkt", (PACKET, PACKET), (FAR,), None),
        ("rppkt", (OWN,), (FAR,), None),
        ("rppkt", (PACKET,), (FAR,) * 9, None),
        ("upkt", (PACKET,), (OWN,), ("packets", "i")),
        ("upkt", (PACKET,), (OWN, OWN), None),
        ("upkt", (PACKET,), (), None),
        ("repkt", (OWN, PACKET, OTHER), (OWN,), ("ipacketspackets", "i")),
        ("repkt", (OWN,), (OWN,), None),
        ("repkt", (OWN, *[PACKET] * 9), (OWN,), ("i" + "packets" * 9, "i")),
        ("repkt", (OWN, *[PACKET] * 10), (OWN,), None),
        ("respkt", (OWN, PACKET), (OWN, FAR), ("ipackets", "ipackets")),
        ("respkt", (OWN, PACKET), (OWN,), None),
        ("respkt", (OWN, PACKET), (OWN, *[FAR] * 9), ("ipackets", "i" + "packets" * 9)),
        ("respkt", (OWN, PACKET), (OWN, *[FAR] * 10), None),
        ("respkt", (OWN, replace(PACKET, size=1)), (OWN, FAR), None),
        ("respkt", (OWN, *[PACKET] * 10), (OWN, FAR), None),
        ("cpkt", (OWN,), (PACKET,), ("i", "packets")),
        ("cpkt", (OWN,), (FAR,), None),
        ("recpkt", (OWN, PACKET), (OWN, PACKET), ("ipackets", "ipackets")),
        ("recpkt", (OWN, PACKET), (OWN,), None),
        ("recspkt", (OWN, PACKET), (OWN, PACKET, FAR), ("ipackets", "ipacketspackets")),
        ("recspkt", (OWN, PACKET), (OWN, FAR), None),
        ("gstorepkt", (PACKET,), (part(0, "s", 4, 2, "switch"),), ("packets", "packets")),
        ("gstorepkt", (OWN,), (part(0, "s", 4, 2, "switch"),), None),
    ],
)
def test_packets_are_taken_in_their_roles(
    name: str,
    sources: tuple[BufferChunks, ...],
    targets: tuple[BufferChunks, ...],
    taken: tuple[str, str] | None,
) -> None:
    found = _ends(MscclppOperation(name, name, (), sources, targets))
    assert (found and tuple("".join(place.letter for place in places) for places in found)) == taken


def test_pipelines_are_cut_into_slices_turn_by_turn() -> None:
    """Two chunks from 3 on are four halves from 6 on; a pipeline of three halves a turn has 3, then one."""
    copy = move("copy", part(0, "i", 3, 2), part(0, "o", 1, 2))
    pipeline = MscclppOperation("pipeline", "p", numbers=(3, 16), inner=(op("nop"), copy))
    found = list(unrolled([copy, pipeline], Scale(2)))
    assert [one.name for one in found] == ["copy", "nop", "copy", "nop", "copy"]
    places = [(*one.sources, *one.targets) for one in found if one.name == "copy"]
    assert [[(place.index, place.size) for place in both] for both in places] == [
        [(6, 4), (2, 4)],
        [(6, 3), (2, 3)],
        [(9, 1), (5, 1)],
    ]
    assert list(unrolled([copy], Scale(1))) == [copy]
    # of two units of scratch a chunk, the third slice takes the first again; chunk 3 begins at unit 6
    kept = move("copy", part(0, "i", 3), part(0, "s", 3))
    alone = MscclppOperation("pipeline", "p", numbers=(1, 16), inner=(kept,))
    units = [(one.sources[0].index, one.targets[0].index) for one in unrolled([alone], Scale(3, slots=2))]
    assert units == [(9, 6), (10, 7), (11, 6)]


@pytest.mark.parametrize(
    ("size", "units", "of", "parts"),
    [(1, 4, 2, [(4, 2), (6, 2)]), (1, 1, 2, [(1, 1), (2, 0)]), (2, 5, 3, [(5, 4), (9, 3), (12, 3)])],
)
def test_groups_of_blocks_share_a_range(size: int, units: int, of: int, parts: list[tuple[int, int]]) -> None:
    """The first blocks take what is over, as the executor's ``calcOffset`` has it."""
    copy = move("copy", part(0, "i", 1, size), part(0, "o", 1, size))
    found = [next(unrolled([replace(copy, part=(number, of))], Scale(units))) for number in range(of)]
    assert [(one.targets[0].index, one.sources[0].size) for one in found] == parts
    # a pipeline goes past the end of a part if it has more turns than the part
    late = MscclppOperation("pipeline", "p", numbers=(size, 16), inner=(replace(copy, part=(1, of)),))
    assert [one.sources[0].size for one in unrolled([late], Scale(2 * of))][1] == -1


def test_what_blocks_hear_they_know_when_lined_up() -> None:
    nothing: Iterator[MscclppOperation] = iter(())
    block = BlockAtWork(4, 2, nothing)
    assert (block.now, block.there, block.known) == (None, {2}, {})
    one, two = deque([News({1: 5}, {7}), News({1: 3, 6: 1}, {8})]), deque([News({4: 9}, {9})])
    assert not block.hear_all([two, two])
    assert block.hear_all([one, two, one])
    assert (len(one), len(two), block.known, block.there) == (0, 0, {}, {2})
    assert (block.heard, block.heard_there) == ({1: 5, 6: 1, 4: 9}, {2, 7, 8, 9})
    block.moves = 3
    block.line_up()
    assert (block.known, block.there) == ({1: 5, 6: 1, 4: 3}, {2, 7, 8, 9})
    clock = {1: 2}
    merge(clock, {1: 1, 3: 0, 4: 1})
    assert clock == {1: 2, 4: 1}


@pytest.mark.parametrize(
    ("kind", "sizes", "found"),
    [
        ("allgather", [(2, 6), (2, 6), (2, 6)], []),
        ("reducescatter", [(6, 2), (6, 2), (6, 2)], []),
        ("alltoall", [(6, 6), (6, 6), (6, 6)], []),
        ("alltoall", [(4, 4)] * 3, ["4 input chunks cannot be divided among 3 ranks"]),
        ("allreduce", [(2, 6)] * 3, ["2 input and 6 output chunks do not fit allreduce"]),
        ("allgather", [(6, 2)] * 3, ["6 input and 2 output chunks do not fit allgather"]),
        ("reduce", [(0, 0)] * 3, ["0 input and 0 output chunks do not fit reduce"]),
        ("reduce", [(2, 2), (1, 2), (2, 2)], ["ranks differ in their numbers of input or output chunks"]),
        ("reduce", [(2, 2), (2, 1), (2, 2)], ["ranks differ in their numbers of input or output chunks"]),
    ],
)
def test_buffers_fit_the_collective(kind: str, sizes: list[tuple[int, int]], found: list[str]) -> None:
    plan = plan_of(kind, [(*one, 0) for one in sizes], [[]] * 3)
    assert _shapes(plan) == found
    plan.peers[0]["port"] += [2, 2]
    assert _shapes(plan)[len(found) :] == [
        "port channels 0-2: 3 at one end, 1 at the other",
        "port channels 2-0: 1 at one end, 3 at the other",
    ]
