"""Lowered forests keep the rules of programs and deliver what the collective asks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reference.program_check import check_program
from samples.program_cases import random_case, reference_errors
from treadle.errors import InfeasibleError, ScheduleError
from treadle.planning import solve
from treadle.program.program import Buffer, Operation, OperationKind, Program, program_from_operations
from treadle.program.trees.forest_program import lower
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule
from treadle.topologies.topology import TopologyBuilder


@pytest.mark.parametrize("kind", SPANNING_KINDS)
@pytest.mark.parametrize("in_place", [False, True])
def test_random_forests_lower_to_correct_programs(kind: CollectiveKind, in_place: bool) -> None:
    for seed in range(8):
        topology, collective, schedule = random_case(seed, kind)
        program = lower(
            topology,
            collective,
            schedule,
            channels=1 + seed % 3,
            in_place=in_place,
            merge=seed % 2 == 0,
        )
        assert check_program(program) == ()
        assert reference_errors(program) == []
        sends = program.operation_kind == OperationKind.SEND
        assert np.all((program.path >= 0) == sends)
        for number in np.flatnonzero(sends):
            links = program.links(int(program.path[number]))
            assert topology.tails[links[0]] == program.nodes[program.operation_rank[number]]
            assert topology.heads[links[-1]] == program.nodes[program.peer[number]]


def test_merging_keeps_results_and_saves_messages() -> None:
    saved = 0
    for seed in range(20):
        topology, collective, schedule = random_case(seed, CollectiveKind.ALLREDUCE)
        plain = lower(topology, collective, schedule, merge=False)
        merged = lower(topology, collective, schedule)
        assert reference_errors(merged) == []
        saved += plain.n_operations - merged.n_operations
    assert saved > 0


def test_every_dropped_send_is_noticed() -> None:
    """It unbalances a stream."""
    topology, collective, schedule = random_case(3, CollectiveKind.ALLREDUCE)
    program = lower(topology, collective, schedule)
    for number in np.flatnonzero(program.operation_kind == OperationKind.SEND):
        kinds = program.operation_kind.copy()
        kinds[number] = OperationKind.RECEIVE
        assert check_program(replace(program, operation_kind=kinds))


def test_shares_must_fit_the_collective() -> None:
    topology, collective, schedule = random_case(1, CollectiveKind.ALLGATHER)
    uneven = replace(collective, weights=(7,) * (collective.n_ranks - 1) + (5,))
    with pytest.raises(ScheduleError, match="expected the share"):
        lower(topology, uneven, schedule)
    with pytest.raises(ScheduleError, match="channels"):
        lower(topology, collective, schedule, channels=0)


@pytest.mark.parametrize("kind", SPANNING_KINDS)
@pytest.mark.parametrize("in_place", [False, True])
def test_common_factors_of_multiplicities_make_no_difference(kind: CollectiveKind, in_place: bool) -> None:
    """What is kept while lowering is as long as the trees are many, not as their units are."""
    for seed in range(3):
        topology, collective, schedule = random_case(seed, kind)
        large = replace(schedule, **{part.direction.value: _times(part, 2**36) for part in schedule.forests})
        for merge in (False, True):
            expected = lower(topology, collective, schedule, in_place=in_place, merge=merge)
            assert lower(topology, collective, large, in_place=in_place, merge=merge) == expected


def _times(forest: Forest, factor: int) -> Forest:
    columns = ("root_multiplicity", "tree_multiplicity", "entry_units")
    return replace(forest, **{key: getattr(forest, key) * factor for key in columns})


def test_shares_without_a_common_measure_are_refused_before_memory_is_taken() -> None:
    """Found by the search for faults: 362 GiB were asked for."""
    builder = TopologyBuilder("two")
    a, b = builder.compute("a"), builder.compute("b")
    for tail, head, bandwidth in ((a, b, 10**9 + 7), (a, b, 10**9 + 9), (b, a, 1)):
        builder.link(tail, head, bandwidth)
    topology = builder.build()
    plan = solve(topology, "broadcast", root=0, exact=True).plan
    expected = r"need \d{9,} equal chunks .*smaller number of trees \(--trees or --max-trees, not --exact"
    with pytest.raises(InfeasibleError, match=expected):
        lower(topology, plan.collective, plan.entries[-1].schedule)
    few = solve(topology, "broadcast", root=0).plan
    assert reference_errors(lower(topology, few.collective, few.entries[-1].schedule)) == []


def _pair(*operations: list[Operation], kind: CollectiveKind = CollectiveKind.ALLREDUCE) -> Program:
    return program_from_operations(kind, list(operations), n_chunks=2, shard_offset=[0, 1, 2])


def test_check_finds_cycles_ranges_and_mismatches() -> None:
    send = Operation(OperationKind.SEND, 0, 1, peer=1)
    receive = Operation(OperationKind.RECEIVE, 0, 1, peer=1)
    one = [receive, replace(send, source=Buffer.OUTPUT, waits=(0,))]
    cycle = _pair(one, [replace(operation, peer=0) for operation in one])
    assert [text for text in check_program(cycle) if text.startswith("deadlock")]
    beyond = _pair([send], [replace(receive, peer=0, first=1)], kind=CollectiveKind.ALLGATHER)
    assert "message 0 sends chunks [0, 1), receives [1, 2)" in check_program(beyond)[0]
    outside = _pair(
        [replace(send, first=1)], [replace(receive, peer=0, first=1)], kind=CollectiveKind.ALLGATHER
    )
    assert "uses INPUT chunks [1, 2), which has [0, 1)" in check_program(outside)[0]


@pytest.mark.parametrize(
    "change",
    [
        {"first": 2},
        {"count": 0},
        {"count": 3},
        {"peer": -1},
        {"peer": 0},
        {"peer": 9},
        {"path": 0},
        {"waits": (0,)},
    ],
)
def test_constructor_refuses(change: dict[str, int]) -> None:
    send = Operation(OperationKind.SEND, 0, 1, peer=1)
    with pytest.raises(ScheduleError):
        _pair([replace(send, **change)], [])


def test_trees_that_are_none_have_no_program() -> None:
    """One tree of each of three ranks, straight to the others, of two units each."""
    plan = solve("complete:3", "allgather", trees=1).plan
    schedule = plan.entries[0].schedule
    forest = schedule.broadcast
    two = solve("complete:2", "allgather", trees=1).plan.entries[0].schedule
    empty = Forest(Direction.BROADCAST, [0] * 3, [], [], np.zeros((0, 3)), [0], [], [], [0], [])
    beyond = replace(forest, path_links=[*forest.path_links[:-1], 6])
    more = forest.entry_units.copy()
    more[0] += 1
    parent = forest.parent.copy()
    parent[0] = [-1, 2, 1]
    for made, said in (
        (two, "the schedule has 2 ranks, the collective 3"),
        (ForestSchedule(schedule.kind, broadcast=empty), "the schedule has no trees"),
        (replace(schedule, broadcast=beyond), "forest: link 6, expected links from 0 to 5"),
        (
            replace(schedule, broadcast=replace(forest, entry_units=more)),
            f"tree of root 0: the paths above rank 1 carry {more[0]} units, expected {more[0] - 1}",
        ),
        (
            replace(schedule, broadcast=replace(forest, parent=parent)),
            "tree of root 0: not every rank is reached once from the root",
        ),
        (solve("complete:3", "reduce-scatter", trees=1).plan.entries[0].schedule, OTHER),
    ):
        with pytest.raises(ScheduleError) as caught:
            lower(plan.topology, plan.collective, made)
        assert str(caught.value) == said


OTHER = "the schedule is for reduce-scatter, the collective is allgather"
