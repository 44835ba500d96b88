"""Groups alone and together as reports tell them: held against each group as a problem of its own."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from treadle import planning
from treadle.context import TimeLimitError
from treadle.inputs.problem import Problem
from treadle.planning import bound, make_problem, solve
from treadle.schedulers import bound_results, bounds, group_rates
from treadle.schedulers.alone_rates import alone_in_plan, equivalent_groups
from treadle.schedulers.shared_rates import shared_rates
from treadle.schedules.alltoall.demands import Demands, block_demands
from treadle.schedules.collective import CollectiveKind
from treadle.synthesis.trees.groups.group_optimum import GroupOptimum

ALLTOALLS = [
    ("torus:4,4", "2,8", "0", ""),
    ("torus:4,4", "4,4", "1", "n0_0--n0_1"),
    ("generalized_kautz:3,24", "4,6", "0", ""),
    ("leaf_spine:3,2,gpus_per_leaf=4", "3,4", "0", "leaf1--spine0"),
    ("dgx_a100_flat:2", "4,4", "0", "box1.gpu2--ib0"),
    ("path:6", "3,2", "0", ""),
]


@pytest.mark.parametrize(("fabric", "mesh", "axis", "without"), ALLTOALLS)
def test_each_alltoall_alone_is_a_problem_of_its_own(fabric: str, mesh: str, axis: str, without: str) -> None:
    left = make_problem(fabric, "alltoall", without=without or None).topology
    found = bound(left, "alltoall", mesh=mesh, axes=axis)
    groups = make_problem(left, "allgather", mesh=mesh, axes=axis).collective.groups
    assert groups is not None
    assert found.collective.blocks == tuple(tuple(sorted(group)) for group in groups)
    told = {group: one for one in found.alone for group in one.groups}
    assert sorted(told) == list(range(len(groups)))
    assert [one.algbw for one in found.alone] == sorted({one.algbw for one in found.alone})
    for number, group in enumerate(groups):
        alone = bound(left, "alltoall", ranks=sorted(group), forward=True)
        assert alone.rate is not None
        assert told[number].is_exact is (alone.rate.exact is not None)
        assert float(told[number].algbw) == pytest.approx(float(alone.algbw), rel=2e-3)
        if told[number].is_exact:
            assert told[number].algbw == alone.algbw
    assert found.algbw <= found.alone[0].algbw
    shared = shared_rates(found)
    assert shared is not None
    assert (shared.lower, shared.upper) == (found.algbw, found.algbw)


def test_only_groups_that_a_map_takes_to_each_other_stand_for_each_other() -> None:
    ring = make_problem("ring:8", "alltoall", demands=block_demands(8, [(0, 1, 2, 3), (4, 5, 6, 7)]))
    assert equivalent_groups(ring.topology, ring.collective) == [0, 0]
    path = make_problem("path:6", "alltoall", demands=block_demands(6, [(0, 1), (2, 3), (4, 5)]))
    assert equivalent_groups(path.topology, path.collective) == [0, 1, 0]
    mixed = make_problem("ring:8", "alltoall", demands=block_demands(8, [(0, 1), (2, 4), (3, 5), (6, 7)]))
    assert equivalent_groups(mixed.topology, mixed.collective) == [0, 1, 1, 0]


def test_blocks_are_those_of_block_demands_alone() -> None:
    groups = ((0, 3), (1, 4), (2, 5))
    demands = block_demands(6, groups)
    assert demands.blocks == groups
    uneven = demands.matrix.copy()
    uneven[0, 3] = 2
    one_way = demands.matrix.copy()
    one_way[3, 0] = 0
    for matrix in (uneven, one_way, 2 * demands.matrix, np.ones((4, 4), dtype=np.int64)):
        assert Demands(matrix).blocks is None
    for unequal in ([(0, 1, 2), (3, 4)], [(0, 1, 2), (3,)], [(0, 1)]):
        assert block_demands(5, unequal).blocks is None


def test_busbw_of_an_alltoall_in_groups_is_of_a_group() -> None:
    found = solve("torus:4,4", "alltoall", mesh="4,4", axes="1")
    assert found.collective.group_size == 4
    [row] = planning.simulate(found.plan, [2**20]).rows
    assert row.busbw_bytes_per_s == pytest.approx(0.75 * row.algbw_bytes_per_s)
    [moved] = planning.run(found.plan, [2**12], iterations=1).rows
    assert moved.busbw_bytes_per_s == pytest.approx(0.75 * moved.algbw_bytes_per_s)
    seen = []
    planning.run(found.plan, [2**12], iterations=1, on_row=seen.append)
    assert seen[0].busbw_bytes_per_s == pytest.approx(0.75 * seen[0].algbw_bytes_per_s)


@pytest.mark.parametrize(
    ("fabric", "kind", "mesh", "forward"),
    [
        ("generalized_kautz:3,24", "allgather", "4,6", True),
        ("mesh:3,4", "allreduce", "3,4", True),
        ("leaf_spine:3,2,gpus_per_leaf=4", "broadcast", "3,4", False),
        ("path:6", "alltoall", "3,2", False),
    ],
)
def test_plans_know_what_the_bound_says(fabric: str, kind: str, mesh: str, forward: bool) -> None:
    told = bound(fabric, kind, mesh=mesh, axes="0", forward=forward)
    found = solve(fabric, kind, mesh=mesh, axes="0", forward=forward)
    assert alone_in_plan(found.plan) == found.alone == told.alone
    ours, theirs = shared_rates(found), shared_rates(told)
    assert ours is not None
    assert theirs is not None
    assert (ours.lower, ours.upper, ours.rs_ag) == (theirs.lower, theirs.upper, theirs.rs_ag)


@pytest.mark.parametrize(
    ("fabric", "mesh", "axis", "without", "phases"),
    [
        ("dgx_h100:4", "4,8", "0", "box0.gpu0--ib0", Fraction(175 * 10**9, 6)),
        ("mi250:2", "4,8", "1", None, Fraction(464 * 10**9, 3)),
        ("mesh:3,4", "3,4", "0", None, Fraction(3, 4)),
    ],
)
def test_two_phases_beside_the_joint_optimum(
    fabric: str, mesh: str, axis: str, without: str | None, phases: Fraction
) -> None:
    found = bound(fabric, "allreduce", mesh=mesh, axes=axis, without=without, forward=True)
    assert found.rs_ag == phases < found.algbw
    each = [
        bound(fabric, kind, mesh=mesh, axes=axis, without=without, forward=True).algbw
        for kind in ("reduce-scatter", "allgather")
    ]
    assert 1 / phases == 1 / each[0] + 1 / each[1]
    assert bound(fabric, "allgather", mesh=mesh, axes=axis, without=without, forward=True).rs_ag is None


def test_what_is_known_together_is_told_where_time_ends_before_each_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def late(*_: object) -> None:
        raise TimeLimitError("the time limit was reached")

    monkeypatch.setattr(bound_results, "rates_of", late)
    found = bound("mesh:3,4", "allreduce", mesh="3,4", axes="0", forward=True)
    assert (found.algbw, found.alone) == (1, ())


def test_phases_that_are_not_known_exactly_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    true_optimum = bounds.groups_optimum

    def stopped(problem: Problem) -> GroupOptimum:
        found = true_optimum(problem)
        is_phase = problem.collective.kind is not CollectiveKind.ALLREDUCE
        return replace(found, lower=found.lower * 9 / 10) if is_phase else found

    words = {"mesh": "3,4", "axes": "0", "forward": True}
    assert bound("mesh:3,4", "allreduce", **words).rs_ag == Fraction(3, 4)
    monkeypatch.setattr(group_rates, "groups_optimum", stopped)
    assert bound("mesh:3,4", "allreduce", **words).rs_ag is None
