"""Shares in fewer units: the same rate, by trees that the judge accepts, and few of them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from samples.groups.group_samples import grouped
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.synthesis.trees.groups import integral_allocation as module
from treadle.synthesis.trees.groups.allocation_forests import group_forests, lean_forests
from treadle.synthesis.trees.groups.group_optimum import GroupOptimum, group_optimum
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.failures import without_failures
from treadle.verification.schedules import verify

KINDS = CollectiveKind


def posed(
    name: str, shape: tuple[int, ...], kind: CollectiveKind, forward: bool, dead: tuple[str, ...] = ()
) -> tuple[Topology, Collective]:
    topology, collective = grouped(kind, name, shape, 0, forward)
    return (without_failures(topology, dead) if dead else topology), collective


def units_and_trees(schedule: GroupSchedule) -> tuple[int, int]:
    """Of the group that has the most."""
    return (
        max(one.total_units for one in schedule.groups),
        max(sum(len(forest.tree_root) for forest in one.forests) for one in schedule.groups),
    )


def attained(optimum: GroupOptimum, schedule: GroupSchedule) -> Fraction | None:
    report = verify(optimum.topology, optimum.collective, schedule)
    assert not report.violations
    return report.algbw


def test_units_of_large_programs_are_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """One way of rounding and few trials: the unit is right at once."""
    monkeypatch.setattr(module, "_LARGE_ROWS", 0)
    optimum = group_optimum(*posed("generalized_kautz(3,36)", (6, 6), KINDS.ALLGATHER, True))
    fewer = optimum.in_fewer_units()
    assert fewer is not None
    schedule = group_forests(optimum.topology, optimum.collective, fewer)
    assert attained(optimum, schedule) == optimum.upper
    assert units_and_trees(schedule)[0] == 54


def test_rounding_without_a_way_on_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The boxes of this fabric have whole shares in 7 units, which only branch and bound finds."""
    monkeypatch.setattr(module, "_SEARCHES", 0)
    monkeypatch.setattr(module, "_TIMES", (1,))
    dead = ("box5.gpu1--rail1",)
    optimum = group_optimum(*posed("rail_optimized(16)", (16, 8), KINDS.ALLGATHER, True, dead))
    assert optimum.in_fewer_units() is None
    monkeypatch.setattr(module, "_SEARCHES", 1)
    assert optimum.in_fewer_units() is not None


def test_shares_of_fewer_trees_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of them is the vertex."""
    topology, collective = posed(
        "leaf_spine(8,4,gpus_per_leaf=8,oversubscription=2)",
        (8, 8),
        KINDS.ALLGATHER,
        False,
        ("leaf3--spine2", "leaf5--spine0"),
    )
    vertex = group_optimum(topology, collective)
    fewer = vertex.in_fewer_units()
    assert fewer is not None
    each = [units_and_trees(group_forests(topology, collective, one))[1] for one in (vertex, fewer)]
    assert each[0] != each[1]
    for known, other in ((vertex, fewer), (fewer, vertex)):
        monkeypatch.setattr(GroupOptimum, "in_fewer_units", lambda _self, other=other: other)
        schedule = lean_forests(topology, collective, known)
        assert units_and_trees(schedule)[1] == min(each)
        assert attained(vertex, schedule) == vertex.upper
