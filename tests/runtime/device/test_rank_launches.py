"""One rank's launches: what the GPU's library is told, what all ranks sign, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from treadle.errors import ScheduleError
from treadle.program.program import Buffer, program_from_operations
from treadle.runtime.data import Reduction
from treadle.runtime.device import rank_blocks
from treadle.runtime.device.block_program import (
    BlockAction,
    BlockFlag,
    BlockMessage,
    BlockOperation,
    BlockProgram,
    DeviceProtocol,
    FlagPurpose,
    FlagWait,
    RankBlock,
)
from treadle.runtime.device.memory.peer_memory import FLAGS_AT, MOST_FLAGS, PeerBlock
from treadle.runtime.device.rank_blocks import (
    AdmittedBlocks,
    RankBlocks,
    RankBuffers,
    entering_all,
    used_by_others,
)
from treadle.schedules.collective import CollectiveKind

INPUT, OUTPUT, SCRATCH = Buffer
SIMPLE, LL = DeviceProtocol.SIMPLE, DeviceProtocol.LL


class Library:
    """The GPU's library, which keeps what it is asked; addresses count on from 900."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.c = self
        self.failed: tuple[int, ...] = ()

    def address(self, name: str, *arguments: Any) -> int:
        self.asked.append((name, *arguments))
        return 899 + sum(one[0] in ("treadle_rank_prepare", "treadle_rank_table") for one in self.asked)

    def said(self, name: str, *arguments: Any) -> None:
        self.asked.append((name, *arguments))

    def count(self, name: str, *arguments: Any) -> int:
        self.asked.append((name, *arguments))
        return 13

    def treadle_rank_failed(self, rank: int, where: Any) -> bool:
        where[:] = self.failed or (0,) * 5
        return bool(self.failed)

    def treadle_rank_drop(self, address: int) -> None:
        self.asked.append(("drop", address))

    def treadle_rank_close(self, rank: int) -> None:
        self.asked.append(("close", rank))


class Memory:
    """That of a rank in a group of several."""

    def __init__(self, rank: int, n: int) -> None:
        self.rank, self.blocks, self.network = rank, tuple(100 * (peer + 1) for peer in range(n)), None
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def opened(monkeypatch: pytest.MonkeyPatch, rank: int = 1, n: int = 3) -> tuple[RankBlocks, Library, Memory]:
    library, memory = Library(), Memory(rank, n)
    monkeypatch.setattr(rank_blocks, "gpu_library", lambda: library)
    given: Any = memory
    return RankBlocks(given, limit_s=2.5), library, memory


def lanes_of(n: int = 3, **more: Any) -> BlockProgram:
    """Rank 0 puts a part into rank 2's output and another into rank 1's staging; rank 1 has two lanes."""
    put = BlockOperation(BlockAction.PUT, 0, 0, source=INPUT, puts=(0, 1), raises=(0,))
    take = BlockOperation(BlockAction.TAKE, 0, 0, target=OUTPUT, message=1, waits=(FlagWait(1),))
    wait = BlockOperation(BlockAction.EXPOSE, 0, 0, raises=(3,))
    nobody: list[Any] = [[] for _ in range(n)]
    values: dict[str, Any] = {
        "program": program_from_operations(
            CollectiveKind.ALLREDUCE, nobody, n_chunks=2, shard_offset=[0, *[2] * n]
        ),
        "protocol": SIMPLE,
        "averages": False,
        "bounds": (0, 1, 2),
        "lanes": (
            RankBlock(0, (put,), (9,)),
            RankBlock(1, (wait, take), (9,)),
            RankBlock(1, (wait,)),
            RankBlock(2, ()),
        ),
        "messages": (BlockMessage(0, 2, 0, OUTPUT, 0), BlockMessage(0, 1, 0, None, 5)),
        "flags": (
            BlockFlag(2, FlagPurpose.ARRIVAL, 0),
            BlockFlag(1, FlagPurpose.ARRIVAL, 1),
            BlockFlag(2, FlagPurpose.ENTERED, 0),
            BlockFlag(2, FlagPurpose.EXPOSED, 7),
        ),
    }
    return BlockProgram(**values | more)


def test_every_rank_tells_all_others_that_it_enters() -> None:
    """The flag that is there already is taken; the first lane of a rank tells."""
    found = entering_all(lanes_of())
    pairs = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 1)]
    assert found.flags == (
        *lanes_of().flags,
        *(BlockFlag(rank, FlagPurpose.ENTERED, subject) for rank, subject in pairs),
    )
    assert [lane.enters for lane in found.lanes] == [(2, 6), (4, 8), (), (5, 7)]
    assert [lane.operations for lane in found.lanes] == [lane.operations for lane in lanes_of().lanes]


def test_buffers_that_peers_use() -> None:
    assert RankBuffers((1, 2)) == RankBuffers((1, 2), (None, None), (0, 0), (0, 0))
    lanes = lanes_of()
    assert used_by_others(lanes) == {OUTPUT}
    store = BlockOperation(BlockAction.PUT, 0, 0, source=SCRATCH, copied_to=INPUT, multicast=0)
    total = BlockOperation(BlockAction.SUM, 0, 0, source=SCRATCH, sums=0)
    assert used_by_others(replace(lanes, lanes=(RankBlock(0, (store,)),))) == {OUTPUT, INPUT}
    assert used_by_others(replace(lanes, messages=(), lanes=(RankBlock(0, (total,)),))) == {SCRATCH}


def test_flags_of_programs_lie_behind_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has entered, and with what signature, takes two flags a rank, who gave up one; then programs."""
    ready, library, _ = opened(monkeypatch)
    name, rank, n, blocks, staging, flags = library.asked[0]
    assert (name, rank, n, list(blocks)) == ("treadle_rank_open", 1, 3, [100, 200, 300])
    assert (staging, flags) == (2**24, FLAGS_AT)
    first, second = ready.admit(lanes_of()), ready.admit(lanes_of())
    # flags of ranks 2, 1, 2, 2, then those of pairs; that of an entering rank is its number
    assert first.places == (7 + 0, 7 + 0, 0, 7 + 2, 1, 2, 0, 2, 1)
    assert second.places == (11 + 0, 11 + 0, 0, 11 + 2, 1, 2, 0, 2, 1)
    assert (first.number, second.number, first.used) == (0, 1, frozenset({OUTPUT}))


def test_programs_of_a_group_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    ready, _, _ = opened(monkeypatch)
    with pytest.raises(ScheduleError, match=r"^lanes of 2 ranks in a group of 3$"):
        ready.admit(lanes_of(2))
    scratch = replace(lanes_of(), messages=(BlockMessage(0, 2, 0, SCRATCH, 0),))
    with pytest.raises(ScheduleError, match=r"^lanes use SCRATCH of peers, who do not reach it$"):
        ready.admit(scratch)
    # 40 bytes for each of 24 ranks and 24 for each group, of 49152
    ready, _, _ = opened(monkeypatch, n=24)
    ready.admit(lanes_of(24, groups=((0, 1),) * 2008))
    with pytest.raises(ScheduleError, match=r"^2009 groups around switches: blocks share 49152 bytes$"):
        ready.admit(lanes_of(24, groups=((0, 1),) * 2009))
    ready, _, _ = opened(monkeypatch)
    flags = tuple(BlockFlag(1, FlagPurpose.ARRIVAL, number) for number in range(7))
    monkeypatch.setattr(rank_blocks, "MOST_FLAGS", 7 + 9)  # and two that say who has entered
    ready.admit(lanes_of(flags=flags))
    with pytest.raises(ScheduleError, match=r"^the programs of a group have more than 16 flags at a rank$"):
        ready.admit(lanes_of(flags=flags))
    ready, _, _ = opened(monkeypatch)
    monkeypatch.setattr(rank_blocks, "MOST_FLAGS", 7 + 8)
    with pytest.raises(ScheduleError, match="have more than 15 flags"):
        ready.admit(lanes_of(flags=flags))
    assert MOST_FLAGS == 524288


def test_a_launch_has_at_most_1024_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    opened(monkeypatch, n=1024)
    with pytest.raises(ScheduleError, match=r"^1025 ranks in a launch: expected at most 1024$"):
        opened(monkeypatch, n=1025)


def prepared(ready: RankBlocks, lanes: BlockProgram | None = None, count: int = 8) -> Any:
    admitted = ready.admit(lanes_of() if lanes is None else lanes)
    return ready.prepare(admitted, count, element=3, element_bytes=4, slice_bytes=16)


def test_tables_hold_the_lanes_of_one_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    ready, library, _ = opened(monkeypatch)
    ready.admit(lanes_of())
    found = prepared(ready)
    name, rank, job, number, is_ll, scratch = library.asked[-1]
    assert (name, rank, number, is_ll, scratch) == ("treadle_rank_prepare", 899, 1, False, 0)
    table = job._obj
    # three rows of operations are rank 1's, of which the whole table has four
    assert (table.n_operations, table.n_lanes, table.n_ranks, table.n_slices) == (4, 2, 3, 1)
    assert (table.n_puts, table.n_waits, table.n_raises) == (2, 1, 9)
    assert (table.limit_ns, table.launch, table.signature) == (2_500_000_000, 0, 0)
    assert (table.n_groups, table.n_members, table.multicast, table.memory, table.failure) == (
        *(0, 0),
        *(None,) * 3,
    )
    assert (found.element, found.address, found.signed) == (3, 900, (1, 8, 3, 1))
    assert ready.max_blocks(LL, 2, 64) == 13
    ready.drop(found)
    prepared(ready, replace(lanes_of(), protocol=LL))
    room, dropped, other = library.asked[-3:]
    assert (room, dropped) == (("treadle_rank_room", 899, 2, True, 64), ("drop", 900))
    assert other[4] is True


def launched(ready: RankBlocks, library: Library, one: Any, buffers: RankBuffers, **more: Any) -> Any:
    """What the library is told of a launch."""
    ready.launch(one, buffers, Reduction.MAX, threads=96, **more)
    name, rank, address, given, *codes = library.asked[-1]
    assert (name, rank, address) == ("treadle_rank_launch", 899, one.address)
    return given._obj, codes


def test_launches_say_where_buffers_are(monkeypatch: pytest.MonkeyPatch) -> None:
    ready, library, memory = opened(monkeypatch)
    one = prepared(ready, lanes_of(groups=((0, 1, 2), (1, 2))))
    block = PeerBlock(64, (1000, 2000, 3000), {(1, 2): 77}, number=4)
    buffers = RankBuffers((5, 2064), (None, block), (6, 7), (8, 9))
    places, codes = launched(ready, library, one, buffers, stream=12)
    assert codes == [3, 2, 96, 12]
    assert list(places.buffers) == [5, 2064]
    assert [list(row) for row in places.windows] == [[None, None], [901, 64]]
    assert (places.given, places.given_bytes, places.wanted, places.wanted_bytes) == (6, 7, 8, 9)
    tables = [asked for asked in library.asked if asked[0] == "treadle_rank_table"]
    assert [(asked[1], asked[3]) for asked in tables] == [(899, 5)]
    _, codes = launched(ready, library, one, buffers)
    assert codes[-1] is None
    assert len([asked for asked in library.asked if asked[0] == "treadle_rank_table"]) == 1
    # rank 1's bytes are at 2000 to 2064
    launched(ready, library, one, replace(buffers, addresses=(5, 2000)))
    for at in (1999, 2065):
        with pytest.raises(ScheduleError, match=r"^OUTPUT is not in the block that peers reach$"):
            launched(ready, library, one, replace(buffers, addresses=(5, at)))
    with pytest.raises(ScheduleError, match=r"^lanes use OUTPUT of peers, who do not reach it$"):
        launched(ready, library, one, RankBuffers((5, 2064)))
    ready.close()
    ready.close()
    assert library.asked[-2:] == [("drop", one.address), ("close", 899)]
    assert memory.closed == 1


def test_signatures_tell_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A buffer that peers do not use, and the address at this rank, are nobody else's matter."""
    ready, library, _ = opened(monkeypatch)
    one, more = prepared(ready), prepared(ready, count=9)
    block = PeerBlock(640, (1000, 2000, 3000), number=4)
    base = RankBuffers((5, 2064), (None, block))
    signed = {
        name: launched(ready, library, which, buffers)[0].signature
        for name, which, buffers in (
            ("base", one, base),
            ("again", one, base),
            ("input elsewhere", one, replace(base, addresses=(2000, 2064), blocks=(block, block))),
            ("mapped elsewhere", one, RankBuffers((5, 4064), (None, replace(block, addresses=(0, 4000, 0))))),
            ("moved", one, replace(base, addresses=(5, 2068))),
            ("other block", one, replace(base, blocks=(None, replace(block, number=3)))),
            ("other size", more, base),
        )
    }
    assert len({signed[name] for name in ("base", "again", "input elsewhere", "mapped elsewhere")}) == 1
    assert len(set(signed.values())) == 4
    assert all(0 < value <= 2**56 for value in signed.values())
    ready.launch(one, base, Reduction.MIN, threads=96)
    assert library.asked[-1][3]._obj.signature not in signed.values()


def test_a_wait_that_was_given_up_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations count through all lanes of the table: rank 1's begin behind one of rank 0."""
    ready, library, _ = opened(monkeypatch)
    assert ready.failure() == ""
    ready.admit(replace(lanes_of(), lanes=()))
    ready.admit(lanes_of())
    library.failed = (1, 1, 0, 2, 5)
    assert ready.failure() == (
        "allreduce, protocol Simple: rank 1, lane 1 waited 2.5 s for rank 0 and gave up (TAKE of part 0)"
    )
    library.failed = (1, 1, 1, 3, 5)
    assert "rank 1, lane 2 waited" in ready.failure()
    library.failed = (1, 0, 0, 0, -1)
    assert "rank 0, lane 0 waited 2.5 s for rank 1, 2 and gave up (PUT of part 0)" in ready.failure()
    for flag, peer in ((-5, 0), (-7, 2)):
        library.failed = (1, 1, 0, 2, flag)
        assert ready.failure() == (
            f"allreduce, protocol Simple: rank 1 stopped because rank {peer} had given up; see the message "
            "of that rank"
        )
    for flag, peer in ((-2, 0), (-4, 2)):
        library.failed = (1, 1, 0, 2, flag)
        assert ready.failure() == (
            f"allreduce, protocol Simple: rank 1 and rank {peer} call unlike: another collective, size, "
            "type or operation, or tensors at other places of what peers reach"
        )


def test_proofs_take_as_many_slices_as_slots_and_two(monkeypatch: pytest.MonkeyPatch) -> None:
    ready, _, _ = opened(monkeypatch)
    asked: list[int] = []

    def judge(lanes: BlockProgram, *, slices: int) -> tuple[str, ...]:
        asked.append(slices)
        return ("wrong",)

    monkeypatch.setattr(rank_blocks, "check_blocks", judge)
    for lanes, count in ((lanes_of(), 8), (lanes_of(), 80), (replace(lanes_of(), messages=()), 80)):
        admitted = AdmittedBlocks(lanes, 0, (), frozenset())
        one = replace(prepared(ready, count=count), admitted=admitted)
        assert one.tables.slices == {8: 1, 80: 10}[count]
        assert ready.prove(one) == ("wrong",)
    assert asked == [1, 7, 2]


def test_lanes_that_a_network_carries_are_its_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    class Network:
        library = Library()

        def __init__(self) -> None:
            self.asked: list[Any] = []

        def __getattr__(self, name: str) -> Any:
            def note(*arguments: Any) -> int:
                self.asked.append((name, arguments))
                return 21

            return note

    memory: Any = Memory(1, 3)
    memory.network = network = Network()
    ready = RankBlocks(memory, limit_s=1)
    one = prepared(ready)
    assert ready.max_blocks(SIMPLE, 3, 64) == 21
    block = PeerBlock(640, (0, 2000, 0), number=4)
    ready.launch(one, RankBuffers((5, 2064), (None, block)), Reduction.SUM, threads=32, stream=8)
    (check, (lanes,)), (check_size, sized), (room, asked), (launch, told) = network.asked
    assert [check, check_size, room, launch] == ["check", "check_size", "room", "launch"]
    assert lanes == lanes_of()
    assert (sized, asked) == ((one.tables, 4), (3, 64))
    assert (told[0], told[1], told[3:]) == (899, one.address, ([(-1, 0), (4, 64)], 3, 0, 32, 8))
    assert list(told[2]._obj.windows[1]) == [901, 64]
