"""Tables of lanes at a size, number by number, and estimates of launches by their formula."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from treadle.errors import ScheduleError
from treadle.program.program import Buffer, Operation, OperationKind, Program, program_from_operations
from treadle.runtime.device import sized_blocks
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
from treadle.runtime.device.block_sizes import (
    BlockChoice,
    BlockCosts,
    BlockLimits,
    BlockSizes,
    ProtocolCosts,
    choose_blocks,
    leaving_rate,
    sizes_of,
    unchosen_blocks,
)
from treadle.runtime.device.event_ranges import Event, group_faults, part_exists, ranges_of, user_ranges
from treadle.runtime.device.sized_blocks import SLICE_BYTES, STAGING_BYTES, at_size, flag_offsets, part_ends
from treadle.schedules.collective import CollectiveKind
from treadle.topologies.topology import TopologyBuilder

LL, SIMPLE = DeviceProtocol.LL, DeviceProtocol.SIMPLE
INPUT, OUTPUT, SCRATCH = Buffer


def program(kind: CollectiveKind = CollectiveKind.ALLREDUCE, **more: Any) -> Program:
    """Three ranks and five chunks; rank 1 alone touches scratch."""
    copy = Operation(OperationKind.COPY, 0, 1, target=SCRATCH)
    values: dict[str, Any] = {"n_chunks": 5, "shard_offset": [0, 2, 2, 5]}
    return program_from_operations(kind, [[], [copy], []], **values | more)


def lanes_of(protocol: DeviceProtocol = SIMPLE, made: Program | None = None, **more: Any) -> BlockProgram:
    """Rank 0 puts a part to rank 1's staging and another into rank 2's output; rank 1 takes, all by flags."""
    put = BlockOperation(
        BlockAction.PUT,
        1,
        0,
        source=INPUT,
        puts=(0, 1),
        waits=(FlagWait(1, 2, 0), FlagWait(4, 0, 1)),
        raises=(0, 3),
    )
    take = BlockOperation(
        BlockAction.REDUCE, 1, 1, source=INPUT, target=SCRATCH, message=0, waits=(FlagWait(0),), raises=(1,)
    )
    store = BlockOperation(
        BlockAction.COPY, 2, 2, source=SCRATCH, target=OUTPUT, multicast=1, copied_to=OUTPUT, copies=(2,)
    )
    values: dict[str, Any] = {
        "program": program() if made is None else made,
        "protocol": protocol,
        "averages": False,
        "bounds": (0, 2, 4, 5),
        "lanes": (RankBlock(0, (put,), (4,)), RankBlock(1, (take, store)), RankBlock(2, (), (2, 4))),
        "messages": (
            BlockMessage(0, 1, 1, None, 3),
            BlockMessage(0, 2, 1, OUTPUT, 0),
            BlockMessage(1, 2, 2, OUTPUT, 0),
            BlockMessage(2, 1, 2, None, 2),
        ),
        "flags": (
            BlockFlag(1, FlagPurpose.ARRIVAL, 0),
            BlockFlag(0, FlagPurpose.CREDIT, 0),
            BlockFlag(1, FlagPurpose.ENTERED, 2),
            BlockFlag(2, FlagPurpose.ARRIVAL, 1),
            BlockFlag(0, FlagPurpose.ENTERED, 2),
        ),
        "groups": ((0, 1, 2), (1, 2)),
    }
    return BlockProgram(**values | more)


def test_parts_of_sums_end_at_units_of_sixteen_bytes() -> None:
    """33 floats are 9 units, 3 of them (9 * 2 // 5) before chunk 2 and 7 before chunk 4."""
    assert part_ends(lanes_of(), 33, element_bytes=4) == [0, 12, 28, 33]
    assert part_ends(lanes_of(), 0, element_bytes=4) == [0, 0, 0, 0]
    assert part_ends(lanes_of(), 3, element_bytes=8) == [0, 0, 2, 3]


def test_parts_of_shards_end_where_users_see_them() -> None:
    """Of 33 elements shard 0 has 13 and shard 2 the 20 after them: 5 units, 3 of which before chunk 4."""
    made = program(CollectiveKind.ALLGATHER)
    assert part_ends(lanes_of(made=made), 33, element_bytes=4) == [0, 13, 25, 33]
    assert part_ends(lanes_of(made=made), 33, element_bytes=8) == [0, 13, 25, 33]
    assert part_ends(lanes_of(made=made), 33, element_bytes=2) == [0, 13, 29, 33]


def test_tables_of_a_size() -> None:
    """Parts of 12, 16 and 5 floats are 3, 4 and 2 units; slices of 32 bytes make two of each."""
    found = at_size(lanes_of(), 33, element_bytes=4, slice_bytes=32)
    assert found.slices == 2
    # rank 1's staging has two slots of two units for message 0, and behind them two of one unit for 3
    assert found.operations.tolist() == [
        [0, 0, 16, 8, 0, 48, -1, 0, 0, 1, 0, 0, 2, 0, 2, 1, 2, -1, -1, -1, 0],
        [2, 1, 16, 8, 0, 48, 2, 48, 0, 2, 32, 2, 0, 2, 1, 3, 1, -1, -1, -1, 0],
        [3, 2, 5, 4, 2, 112, 1, 112, 0, 1, 0, 2, 0, 3, 0, 4, 0, -1, 1, 1, 112],
    ]
    assert found.puts.tolist() == [[1, 3, 0, 2, 32], [2, 1, 48, 1, 0]]
    assert found.waits.tolist() == [[0, 2, 0], [1, 0, 1], [0, 0, 0]]
    assert found.raises.tolist() == [[0, 1], [1, 0], [2, 0], [0, 0], [1, 1], [0, 1]]
    assert found.lanes.tolist() == [[0, 0, 1, 0, 1], [1, 1, 2, 3, 0], [2, 3, 0, 4, 2]]
    assert (found.groups.tolist(), found.members.tolist()) == ([[0, 3], [3, 2]], [0, 1, 2, 1, 2])
    assert found.scratch_bytes.tolist() == [0, 132, 0]
    assert flag_offsets(lanes_of()) == ([0, 0, 1, 0, 1], [2, 2, 1])
    moved = at_size(lanes_of(), 33, element_bytes=4, places=[9, 8, 7, 6, 5])
    assert moved.waits[:, 0].tolist() == [8, 5, 9]
    assert moved.slices == 1
    assert moved.operations[:, 3].tolist() == [16, 16, 8]


def test_slices_of_ll_are_one_and_its_staging_has_halves() -> None:
    """A line of 8 bytes carries 4: two units of staging for each of data."""
    found = at_size(lanes_of(LL), 33, element_bytes=4, slice_bytes=32)
    half = STAGING_BYTES[LL] // 2
    assert found.slices == 1
    assert found.operations[1, 8:11].tolist() == [0, 2, half]
    assert found.puts.tolist() == [[1, 3, 0, 2, half], [2, 1, 48, 1, 0]]
    both = replace(
        lanes_of(LL),
        lanes=(RankBlock(2, (BlockOperation(BlockAction.PUT, 2, 0, source=INPUT, puts=(3,)),)),),
    )
    assert at_size(both, 33, element_bytes=4).puts.tolist() == [[1, 3, 128, 2, half]]


@pytest.mark.parametrize(
    ("slice_bytes", "slices"), [(64, 1), (63, 2), (32, 2), (31, 3), (16, 4), (1, 4), (2**20, 1)]
)
def test_slices_are_as_large_as_asked(slice_bytes: int, slices: int) -> None:
    assert at_size(lanes_of(), 33, element_bytes=4, slice_bytes=slice_bytes).slices == slices


def test_staging_has_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one slice rank 1 is sent 4 units and 2; of LL it is twice that for each of two launches."""
    assert sized_blocks.MOST_SLICES == 1048575
    assert (SLICE_BYTES, STAGING_BYTES) == (262144, {SIMPLE: 16777216, LL: 16777216})
    monkeypatch.setitem(sized_blocks.STAGING_BYTES, SIMPLE, 96)
    assert at_size(lanes_of(), 33, element_bytes=4).slices == 1
    # in two slices two slots each are as much; in four, three of one unit and two of one
    monkeypatch.setitem(sized_blocks.STAGING_BYTES, SIMPLE, 95)
    assert at_size(lanes_of(), 33, element_bytes=4).slices == 4
    monkeypatch.setitem(sized_blocks.STAGING_BYTES, SIMPLE, 80)
    assert at_size(lanes_of(), 33, element_bytes=4).slices == 4
    monkeypatch.setitem(sized_blocks.STAGING_BYTES, SIMPLE, 79)
    with pytest.raises(
        ScheduleError, match=r"protocol Simple needs 80B of staging at a rank in slices of 16"
    ):
        at_size(lanes_of(), 33, element_bytes=4)
    monkeypatch.setitem(sized_blocks.STAGING_BYTES, LL, 384)
    assert at_size(lanes_of(LL), 33, element_bytes=4).slices == 1
    monkeypatch.setitem(sized_blocks.STAGING_BYTES, LL, 383)
    with pytest.raises(ScheduleError, match="protocol LL needs 384B of staging at a rank, 383B are there"):
        at_size(lanes_of(LL), 33, element_bytes=4)


def test_slices_have_numbers_of_their_launch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag is its launch's number times 2^20 and a slice."""
    assert at_size(lanes_of(), 2**23, element_bytes=4, slice_bytes=16).slices == 838861
    words = r"^slices of 16B: a part of 25.6MB has 1677722, expected at most 1048575; use larger slices$"
    with pytest.raises(ScheduleError, match=words):
        at_size(lanes_of(), 2**24, element_bytes=4, slice_bytes=16)
    monkeypatch.setattr(sized_blocks, "MOST_SLICES", 4)
    assert at_size(lanes_of(), 33, element_bytes=4, slice_bytes=16).slices == 4
    monkeypatch.setattr(sized_blocks, "MOST_SLICES", 3)
    with pytest.raises(ScheduleError, match=r"a part of 64B has 4, expected at most 3; use larger slices"):
        at_size(lanes_of(), 33, element_bytes=4, slice_bytes=16)


def places(operation: BlockOperation, rank: int, protocol: DeviceProtocol = SIMPLE, **more: Any) -> Any:
    """What slice 5 of an operation in launch 3 reads and writes."""
    event = Event(0, rank, 3, 5, operation)
    return ranges_of(replace(lanes_of(protocol), **more), event)


def test_operations_touch_their_places() -> None:
    (put,), (take, store), _ = (lane.operations for lane in lanes_of().lanes)
    # slot 5 % 3 of message 0; of LL the slot is the launch's
    assert places(put, 0) == ([(0, 0, 1, 5)], [(-1, 0, 0, 2), (2, 1, 1, 5)])
    assert places(put, 0, LL) == ([(0, 0, 1, 5)], [(-1, 0, 5, 0), (2, 1, 1, 5)])
    assert places(take, 1) == ([(1, 0, 1, 5), (-1, 0, 0, 2)], [(1, 2, 1, 5)])
    assert places(store, 1) == ([(1, 2, 2, 5)], [(1, 1, 2, 5), (1, 1, 2, 5), (2, 1, 2, 5)])
    wait = BlockOperation(BlockAction.AWAIT, 2, 0, target=OUTPUT, message=2)
    assert places(wait, 2) == ([(2, 1, 2, 5)], [])
    assert places(wait, 2, program=program(in_place=True)) == ([(2, 0, 2, 5)], [])
    total = BlockOperation(BlockAction.SUM, 0, 0, source=INPUT, target=OUTPUT, sums=1)
    assert places(total, 1) == ([(1, 0, 0, 5), (2, 0, 0, 5)], [(1, 1, 0, 5)])


def test_users_have_the_parts_of_their_buffers() -> None:
    made = lanes_of(made=program(CollectiveKind.ALLGATHER))
    assert [part_exists(made, rank, INPUT, part) for rank in range(3) for part in range(3)] == [
        *(True, False, False),
        *(False,) * 3,
        *(False, True, True),
    ]
    assert [place for buffer, place in user_ranges(made, 2, 2) if buffer is INPUT] == [
        (2, 0, 1, 0),
        (2, 0, 1, 1),
        (2, 0, 2, 0),
        (2, 0, 2, 1),
    ]
    assert len(list(user_ranges(made, 2, 2))) == 2 * (2 + 3 + 3)


STORE = lanes_of().lanes[1].operations[1]


@pytest.mark.parametrize(
    ("operation", "rank", "faults"),
    [
        (STORE, 1, []),
        (replace(STORE, copies=(0,)), 1, ["elsewhere than its messages go", "to others than its group"]),
        (replace(STORE, copies=(1,)), 1, []),
        (replace(STORE, copies=()), 1, ["to others than its group"]),
        (replace(STORE, multicast=-1), 1, ["copies a store to no place", "to others than its group"]),
        (replace(STORE, copied_to=None), 1, ["of which it is not", "to no place", "elsewhere than its"]),
        (STORE, 0, ["asks for group 1, of which it is not", "to others than its group"]),
        (replace(STORE, multicast=-1, copied_to=None, copies=(), sums=1), 1, ["sums a group in no SUM"]),
        (replace(STORE, action=BlockAction.SUM), 1, ["sums a group in no SUM"]),
        (replace(STORE, action=BlockAction.SUM, source=INPUT, sums=0), 1, []),
    ],
)
def test_faults_of_groups_are_told(operation: BlockOperation, rank: int, faults: list[str]) -> None:
    found = list(group_faults(lanes_of(), rank, operation))
    assert len(found) == len(faults)
    assert all(any(words in one for one in found) for words in faults)


def test_the_first_group_is_one_as_well() -> None:
    assert list(group_faults(lanes_of(), 1, replace(STORE, multicast=0))) == [
        "rank 1 copies part 2 to others than its group"
    ]
    total = BlockOperation(BlockAction.SUM, 0, 0, source=INPUT, target=OUTPUT, sums=0)
    assert list(group_faults(lanes_of(LL), 1, total)) == ["rank 1 asks for group 0, of which it is not"]
    assert Event(3, 2, 1) == Event(3, 2, 1, 0, None, [], [])


def test_groups_have_a_part_at_one_place() -> None:
    """In an exchange of shards, chunk 4 of rank 2's input has one more before it; LL has no groups."""
    made = lanes_of(made=program(CollectiveKind.ALLGATHER))
    total = BlockOperation(BlockAction.SUM, 1, 0, source=INPUT, target=OUTPUT, sums=1)
    assert list(group_faults(made, 1, total)) == ["part 1 is not at one place in INPUT of group 1"]
    assert list(group_faults(made, 1, replace(total, source=OUTPUT))) == []
    assert list(group_faults(lanes_of(LL), 1, replace(total, source=OUTPUT))) == [
        "rank 1 asks for group 1, of which it is not"
    ]


FIGURES = BlockSizes(depth=3, sent=1.5, largest=0.25, received=0.5, parts=6)
COSTS = ProtocolCosts(1000, 200, 30, 0.5, lane_bytes_per_s=10**10, most_bytes_per_s=3 * 10**10)


def estimate(lanes: int, size: int, slice_bytes: int | None, costs: ProtocolCosts = COSTS) -> float:
    """Launch, latencies, flags and lanes; what the busiest rank sends; what fills the chain of three."""
    lane = costs.lane_bytes_per_s or 20 * 10**9
    carried = min(10**11 * costs.efficiency, lanes * lane, costs.most_bytes_per_s or 10**11)
    message = size / 4
    pieces = 1 if slice_bytes is None else max(1, -(-int(message) // slice_bytes))
    flags = 0 if slice_bytes is None else pieces + 3
    wait = 3 * costs.alpha_ns + flags * (costs.occupancy_ns + 1000) + 100 * lanes
    fill = 2 * message / pieces / min(lane, carried)
    return (costs.launch_ns + wait) / 1e9 + 1.5 * size / carried + fill


@pytest.mark.parametrize(
    "costs",
    [
        COSTS,
        replace(COSTS, lane_bytes_per_s=0),
        replace(COSTS, most_bytes_per_s=0),
        replace(COSTS, efficiency=0.05),
    ],
)
@pytest.mark.parametrize("size", [0, 100, 40_000, 3_000_000])
def test_launches_are_estimated_by_the_formula(costs: ProtocolCosts, size: int) -> None:
    model = BlockCosts("m", {SIMPLE: costs, LL: costs})
    for lanes, protocol, slice_bytes in ((1, SIMPLE, 4096), (3, SIMPLE, 1000), (5, LL, 77)):
        limits = BlockLimits((protocol,), lanes=lanes, threads=7, slice_bytes=slice_bytes)
        found = choose_blocks(FIGURES, size, model, rate_bytes_per_s=1e11, limits=limits)
        time_s = estimate(lanes, size, None if protocol is LL else slice_bytes, costs)
        assert replace(found, time_s=0.0) == BlockChoice(protocol, lanes, 7, slice_bytes, 0.0)
        assert found.time_s == pytest.approx(time_s)
    free = choose_blocks(FIGURES, size, model, rate_bytes_per_s=1e11, limits=BlockLimits((SIMPLE,)))
    best = min(
        (estimate(lanes, size, 2**power, costs), lanes, -(2**power))
        for lanes in (1, 2, 4)
        for power in range(12, 20)
    )
    assert free.time_s == pytest.approx(best[0])
    assert (free.lanes, -free.slice_bytes) == best[1:]


@pytest.mark.parametrize(
    ("piece", "protocol", "slice_bytes", "threads"),
    [
        (16 * 32, SIMPLE, 2**18, 32),
        (16 * 33, SIMPLE, 2**18, 64),
        (16 * 33, SIMPLE, 512, 32),
        (16 * 512, SIMPLE, 2**18, 512),
        (16 * 513, SIMPLE, 2**18, 512),
        (8 * 33, LL, 16, 64),
        (0, LL, None, 32),
    ],
)
def test_threads_have_a_vector_each(
    piece: int, protocol: DeviceProtocol, slice_bytes: int | None, threads: int
) -> None:
    limits = BlockLimits((protocol,), slice_bytes=slice_bytes)
    found = choose_blocks(FIGURES, 4 * piece, BlockCosts("m", {protocol: COSTS}), limits=limits)
    assert found.threads == threads


@pytest.mark.parametrize(
    ("parts", "lanes", "most", "tried"),
    [
        *((6, None, None, 4), (1, None, None, 1), (0, None, None, 1), (99, None, None, 16)),
        *((99, None, 15, 8), (2, 40, None, 40), (2, 40, 30, 30), (2, 3, 30, 3)),
    ],
)
def test_lanes_have_work_and_room(parts: int, lanes: int | None, most: int | None, tried: int) -> None:
    """Where lanes cost nothing beside what they carry, the most are taken."""
    costs = ProtocolCosts(0, 0, 0, 1.0, lane_bytes_per_s=10**6)
    found = choose_blocks(
        replace(FIGURES, parts=parts), 10**8, BlockCosts("m", {SIMPLE: costs}),
        rate_bytes_per_s=1e12, limits=BlockLimits((SIMPLE,), lanes=lanes, most_lanes=most),
    )  # fmt: skip
    assert found.lanes == tried


def test_ll_is_left_out_where_its_staging_is_too_small() -> None:
    """Twice the bytes: half a buffer received takes all of its size, of half the staging."""
    cheap, dear = ProtocolCosts(0, 0, 0, 1.0), ProtocolCosts(10**9, 0, 0, 1.0)
    model = BlockCosts("m", {SIMPLE: dear, LL: cheap})
    size = STAGING_BYTES[LL] // 4
    assert choose_blocks(FIGURES, size, model).protocol is LL
    assert choose_blocks(FIGURES, size + 1, model).protocol is SIMPLE
    found = choose_blocks(FIGURES, 2 * size, model, limits=BlockLimits((LL,)))
    assert (found.protocol, found.slice_bytes) == (LL, 2**18)
    with pytest.raises(ScheduleError, match="protocol LL by cost model m: it has no figures for that"):
        choose_blocks(FIGURES, 1, BlockCosts("m", {SIMPLE: cheap}), limits=BlockLimits((LL,)))
    assert BlockLimits() == BlockLimits((SIMPLE, LL), None, None, None, None)


def test_what_is_not_chosen_is_said_or_the_most() -> None:
    assert unchosen_blocks(BlockLimits((LL, SIMPLE))) == BlockChoice(LL, 16, 512, 262144, 0.0)
    assert unchosen_blocks(BlockLimits((SIMPLE,), 3, 64, 99)) == BlockChoice(SIMPLE, 3, 64, 99, 0.0)


def test_the_rank_with_the_least_links_counts() -> None:
    builder = TopologyBuilder("odd")
    one, other, switch = builder.compute("a"), builder.compute("b"), builder.switch("s")
    for tail, head, rate in (
        *((one, other, 700_000), (one, switch, 400_000), (other, one, 1_000_000)),
        *((switch, other, 5), (switch, one, 5), (other, switch, 90_000)),
    ):
        builder.link(tail, head, rate)
    assert leaving_rate(builder.build()) == 1_090_000
    slow = TopologyBuilder("slow")
    one, other = slow.compute("a"), slow.compute("b")
    slow.link(one, other, 10**6)
    slow.link(other, one, 10**6 + 1)
    assert leaving_rate(slow.build()) == 10**6
    slower = TopologyBuilder("slower")
    one, other = slower.compute("a"), slower.compute("b")
    slower.duplex(one, other, 10**6 - 1)
    assert leaving_rate(slower.build()) == 450_000_000_000


def test_figures_of_a_chain() -> None:
    """Rank 0 sends two chunks of five to rank 1, which sends them on with its own one."""
    send, receive = OperationKind.SEND, OperationKind.RECEIVE
    made = program_from_operations(
        CollectiveKind.ALLGATHER,
        [
            [Operation(send, 0, 2, peer=1)],
            [
                Operation(receive, 0, 2, peer=0),
                Operation(send, 0, 2, peer=2, source=OUTPUT, waits=(0,)),
                Operation(send, 2, 1, peer=2),
            ],
            [Operation(receive, 0, 2, peer=1), Operation(receive, 2, 1, peer=1)],
        ],
        n_chunks=5,
        shard_offset=[0, 2, 3, 5],
    )
    found = sizes_of(made)
    assert (found.depth, found.largest, found.parts) == (2, 0.4, 2)
    assert (found.sent, found.received) == pytest.approx((0.6, 0.6))
