"""Lanes that ask switches: stores that are copied and loads that sum, right in every order and as threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

from reference.lanes.lane_orders import (
    changed,
    slices_to_judge,
)
from treadle.errors import ScheduleError
from treadle.planning import program_of, run, solve
from treadle.program.program import Buffer, Operation, OperationKind, Program, program_from_operations
from treadle.runtime.data import ElementType, Reduction
from treadle.runtime.device.block_lowering import left_to_switches, lower_to_blocks
from treadle.runtime.device.block_program import (
    BlockAction,
    BlockOperation,
    BlockProgram,
    DeviceProtocol,
)
from treadle.runtime.device.emulated import measure_emulated
from treadle.runtime.device.happens_before import check_blocks
from treadle.schedules.collective import CollectiveKind
from treadle.topologies.topology import Topology, TopologyBuilder

SIMPLE = DeviceProtocol.SIMPLE
ONE_BOX, TWO_BOXES = "dgx_h100(1, 4, nvls=True)", "dgx_h100(2, 4, nvls=True)"
CASES = [
    (ONE_BOX, "allreduce", "nvls"),
    (ONE_BOX, "allgather", "nvls"),
    (ONE_BOX, "reduce-scatter", "nvls"),
    (ONE_BOX, "broadcast", "multicast"),
    (ONE_BOX, "reduce", "multicast"),
    *((TWO_BOXES, kind, "multicast") for kind in ("allreduce", "allgather", "reduce-scatter", "broadcast")),
]
"""Fabric, collective, and the scheduler or option that leaves operations to switches."""


@cache
def case(fabric: str, kind: str, how: str, *, in_place: bool = False) -> tuple[Topology, Program]:
    plan = (
        solve(fabric, kind, multicast=True) if how == "multicast" else solve(fabric, kind, algorithm=how)
    ).plan
    return plan.topology, program_of(plan, 1024, in_place=in_place)


@cache
def lowered(fabric: str, kind: str, how: str, *, in_place: bool = False) -> BlockProgram:
    topology, program = case(fabric, kind, how, in_place=in_place)
    return lower_to_blocks(program, SIMPLE, lanes=2, switches=topology)


def operations(lanes: BlockProgram) -> Iterator[tuple[int, BlockOperation]]:
    for lane in lanes.lanes:
        for operation in lane.operations:
            yield lane.rank, operation


def star(names: int = 3) -> Topology:
    builder = TopologyBuilder("star")
    builder.switch("sw", multicast=True, aggregation=True)
    for number in range(names):
        builder.compute(f"gpu{number}")
        builder.duplex(f"gpu{number}", "sw", 450 * 10**9)
    return builder.build()


def sums_of_scratch(topology: Topology, *, chunks_of: tuple[int, ...]) -> Program:
    """An allreduce of three ranks: each rank copies to SCRATCH, what `chunks_of` a root is summed from there.

    Chunk c belongs to root chunks_of[c].
    """
    paths: list[list[int]] = []

    def path(*nodes: int) -> int:
        ends = zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)
        number = {pair: link for link, pair in enumerate(ends)}
        paths.append([number[nodes[i], nodes[i + 1]] for i in range(len(nodes) - 1)])
        return len(paths) - 1

    nodes, switch = topology.is_compute.nonzero()[0].tolist(), int(topology.switches[0])
    made: list[list[Operation]] = [
        [
            Operation(OperationKind.COPY, chunk, 1, source=Buffer.INPUT, target=Buffer.SCRATCH)
            for chunk in range(len(chunks_of))
        ]
        for _ in nodes
    ]
    for chunk, root in enumerate(chunks_of):
        others = [rank for rank in range(len(nodes)) if rank != root]
        for place, rank in enumerate(others):
            way = path(nodes[rank], switch, nodes[root]) if place == 0 else path(nodes[rank], switch)
            made[rank].append(
                Operation(OperationKind.SEND, chunk, 1, root, Buffer.SCRATCH, path=way, waits=(chunk,))
            )
            waits = (chunk,) if place == 0 else (len(made[root]) - 1,)
            source = Buffer.SCRATCH if place == 0 else Buffer.OUTPUT
            made[root].append(Operation(OperationKind.RECEIVE_REDUCE, chunk, 1, rank, source, waits=waits))
        done = len(made[root]) - 1
        for place, rank in enumerate(others):
            way = path(nodes[root], switch, nodes[rank]) if place == 0 else path(switch, nodes[rank])
            made[root].append(
                Operation(OperationKind.SEND, chunk, 1, rank, Buffer.OUTPUT, path=way, waits=(done,), step=1)
            )
            made[rank].append(Operation(OperationKind.RECEIVE, chunk, 1, root, step=1))
    bounds = [0, *(sum(root <= rank for root in chunks_of) for rank in range(len(nodes)))]
    return program_from_operations(
        CollectiveKind.ALLREDUCE,
        made,
        n_chunks=len(chunks_of),
        shard_offset=bounds,
        nodes=nodes,
        paths=paths,
    )


@pytest.mark.parametrize(("fabric", "kind", "how"), CASES)
def test_what_a_plan_leaves_to_switches_is_asked_and_right(fabric: str, kind: str, how: str) -> None:
    for turn, in_place in enumerate((False, True)):
        topology, program = case(fabric, kind, how, in_place=in_place)
        lanes = lowered(fabric, kind, how, in_place=in_place)
        assert check_blocks(lanes, slices=slices_to_judge(lanes)) == ()
        asked = [operation for _, operation in operations(lanes)]
        stores, sums = left_to_switches(program, topology, switch_sums=True)
        assert (
            bool(stores)
            == any(one.multicast >= 0 for one in asked)
            == (kind not in ("reduce", "reduce-scatter"))
        )
        assert (
            bool(sums)
            == any(one.sums >= 0 for one in asked)
            == (kind in ("reduce", "reduce-scatter", "allreduce"))
        )
        rows = measure_emulated(
            program, [4, 4100], switches=topology, slice_bytes=512, threads=1 + 3 * turn, seed=turn
        )
        assert [row.wrong for row in rows] == [0, 0]


def test_in_one_box_every_rank_and_lane_asks_for_as_much() -> None:
    """One load that sums and one store, fused, of each rank's share in each lane: 400 of 450 GB/s pass."""
    lanes = lowered("dgx_h100(1, nvls=True)", "allreduce", "nvls", in_place=True)
    asks = [[one for one in lane.operations if one.sums >= 0] for lane in lanes.lanes]
    assert len(asks) == 16
    assert [len(own) for own in asks] == [1] * 16
    assert all(own[0].multicast == 0 and own[0].target is None and not own[0].puts for own in asks)
    assert {one.action for _, one in operations(lanes)} == {BlockAction.SUM, BlockAction.AWAIT}
    result = run(
        solve("dgx_h100(1, nvls=True)", "allreduce"), ["1K"], runtime="device-emulated", in_place=True
    )
    assert result.wrong == 0
    assert result.shortfall is None


def test_maxima_of_float32_go_from_rank_to_rank() -> None:
    plan = solve(ONE_BOX, "allreduce", algorithm="nvls")
    for element, reduction, sums in (
        (ElementType.FLOAT32, Reduction.MAX, 8),
        (ElementType.FLOAT32, Reduction.AVG, None),
        (ElementType.FLOAT16, Reduction.MIN, None),
        (ElementType.BFLOAT16, Reduction.SUM, None),
        (ElementType.INT64, Reduction.AVG, None),
    ):
        result = run(plan, [6, "1K"], runtime="device-emulated", element=element, reduction=reduction)
        assert result.wrong == 0
        assert (result.shortfall and result.shortfall.n_sends) == sums


def test_one_rank_that_asks_for_all_is_refused_as_slow() -> None:
    topology = star(4)
    program = sums_of_scratch(topology, chunks_of=(0, 0))
    with pytest.raises(ScheduleError, match=r"rank 0 initiates 100% .* 225 GB/s .* 360 GB/s pass"):
        lower_to_blocks(program, SIMPLE, lanes=2, switches=topology)
    lower_to_blocks(program, SIMPLE, lanes=2)


def test_askers_may_be_a_quarter_slower_than_with_equal_shares() -> None:
    """Of three ranks one has 4/3 of the data on its link with a third of the sums, 5/3 with two thirds."""
    topology = star()
    lower_to_blocks(sums_of_scratch(topology, chunks_of=(0, 2, 2)), SIMPLE, lanes=2, switches=topology)
    with pytest.raises(ScheduleError) as caught:
        lower_to_blocks(sums_of_scratch(topology, chunks_of=(0, 2, 2, 2)), SIMPLE, lanes=2, switches=topology)
    assert str(caught.value) == (
        "slow: rank 2 initiates 75% of the switch reductions: its link of 450 GB/s carries 1.75 times the "
        "data, "
        "and 257.14 GB/s pass; equal shares of 3 ranks let 337.5 GB/s pass: use a plan with a root at every "
        "rank"
    )


def test_one_lane_that_sums_is_refused_as_slow() -> None:
    topology, program = case(ONE_BOX, "allreduce", "nvls")
    with pytest.raises(ScheduleError) as caught:
        lower_to_blocks(program, SIMPLE, lanes=1, switches=topology)
    assert str(caught.value) == (
        "slow: one block of a rank has 32 KB of loads that sum under way, 32.77 GB/s at an assumed round "
        "trip of 1 us, 131.07 GB/s of all 4 initiating ranks; use --lanes 2 or more"
    )
    topology, program = case(ONE_BOX, "allgather", "nvls")
    lower_to_blocks(program, SIMPLE, lanes=1, switches=topology)


def test_operations_of_other_groups_are_refused() -> None:
    lanes = lowered(ONE_BOX, "allreduce", "nvls")
    place, operation = next(
        (place, one) for place, one in enumerate(lanes.lanes[0].operations) if one.sums >= 0
    )

    def refused(**fields: object) -> str:
        other = changed(lanes, 0, place, replace(operation, **fields))  # type: ignore[arg-type]
        return " ".join(check_blocks(other, slices=1))

    assert "copies part" in refused(copies=operation.copies[1:])
    assert "elsewhere" in refused(copied_to=Buffer.SCRATCH)
    assert "sums a group in no SUM" in refused(action=BlockAction.COPY)
    assert "without part" in refused(sums=-1, action=BlockAction.PUT)
    fewer = replace(lanes, groups=((1, 2, 3),))
    assert any("of which it is not" in one for one in check_blocks(fewer, slices=1))
