"""Shares in fewer units: the same rate, by trees that the judge accepts, and few of them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from samples.groups.group_samples import grouped
from samples.groups.regular_fabrics import grouped_fabric
from treadle.context import Context, under
from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.synthesis.trees.groups import integral_allocation as module
from treadle.synthesis.trees.groups.allocation_forests import group_forests, lean_forests
from treadle.synthesis.trees.groups.group_optimum import GroupOptimum, group_optimum
from treadle.synthesis.trees.groups.tree_optimum import TreeOptimum
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.failures import without_failures
from treadle.verification.schedules import verify

KINDS = CollectiveKind
LEAVES = "leaf_spine(8,8,gpus_per_leaf=8,oversubscription=4)"
DEAD = ("leaf3--spine[25]", "leaf5--spine0")


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


@pytest.mark.parametrize(
    ("name", "shape", "kind", "forward", "dead", "units", "trees"),
    [
        # vertices have 20160 and 10980 units, 252 and 1071 trees
        (LEAVES, (8, 8), KINDS.ALLGATHER, False, DEAD, 48, 24),
        (LEAVES, (8, 8), KINDS.ALLREDUCE, False, DEAD, 61, 90),
        # 1680 units: each of the 15 others has its own part of the box that lacks a link
        ("rail_optimized(16)", (16, 8), KINDS.ALLGATHER, True, ("box5.gpu1--rail1",), 112, 16),
        ("generalized_kautz(3,36)", (6, 6), KINDS.ALLGATHER, True, (), 54, 30),
        ("generalized_kautz(4,32)", (4, 8), KINDS.REDUCE_SCATTER, True, (), 40, 20),
        ("dragonfly(4,2)", (9, 4), KINDS.ALLGATHER, True, (), 9, 9),
    ],
)
def test_units_and_trees_are_few(
    name: str,
    shape: tuple[int, ...],
    kind: CollectiveKind,
    forward: bool,
    dead: tuple[str, ...],
    units: int,
    trees: int,
) -> None:
    topology, collective = posed(name, shape, kind, forward, dead)
    optimum = group_optimum(topology, collective)
    fewer = optimum.in_fewer_units()
    assert fewer is not None
    assert (fewer.lower, fewer.upper) == (optimum.lower, optimum.upper)
    schedule = group_forests(topology, collective, fewer)
    assert attained(optimum, schedule) == optimum.upper
    found = units_and_trees(schedule)
    assert found[0] == units
    assert found[1] <= trees
    assert units_and_trees(lean_forests(topology, collective, optimum))[1] <= found[1]


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


def test_random_fabrics_keep_their_rate() -> None:
    """Any fabric whose vertex has more than two units for each rank of a group; every kind."""
    random, n_fewer, kinds = Random(7), 0, set()
    for _ in range(40):
        try:
            optimum = group_optimum(*grouped_fabric(random))
        except InfeasibleError:
            continue
        fewer = optimum.in_fewer_units()
        if fewer is None:
            continue
        topology, collective = optimum.topology, optimum.collective
        before = group_forests(topology, collective, optimum)
        after = group_forests(topology, collective, fewer)
        assert attained(optimum, after) == attained(optimum, before) == optimum.upper
        assert units_and_trees(after)[0] < units_and_trees(before)[0]
        n_fewer += 1
        kinds.add(collective.kind)
    assert n_fewer >= 3
    assert len(kinds) >= 2


def test_few_units_are_left_as_they_are() -> None:
    optimum = group_optimum(*posed("torus(8,8)", (8, 8), KINDS.ALLGATHER, True))
    assert optimum.in_fewer_units() is None


def test_without_an_optimum_or_time_there_are_no_others() -> None:
    topology, collective = posed(LEAVES, (8, 8), KINDS.ALLGATHER, False, DEAD)
    optimum = group_optimum(topology, collective)
    with under(Context(None, deadline=0.0)):
        assert optimum.in_fewer_units() is None
    assert replace(optimum, upper=2 * optimum.upper).in_fewer_units() is None


def test_flows_find_what_trees_of_representatives_do_not_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of a colour that are no copies: shares by trees of one miss members of others."""
    fabric, collective = posed("generalized_kautz(4,64)", (8, 8), KINDS.ALLGATHER, True)
    expected = group_optimum(fabric, collective)
    monkeypatch.setattr(TreeOptimum, "_serve", lambda self, found: False)
    found = group_optimum(fabric, collective)
    assert found.is_exact
    assert not found.has_trees
    assert found.lower == expected.lower == Fraction(32, 21)
    assert verify(fabric, collective, lean_forests(fabric, collective, found)).is_ok


def test_the_least_load_is_given_up_where_it_is_not_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares at the optimum: first those that load links least, at a rate that is known, else any."""
    fabric, collective = posed("dgx_h100(2)", (2, 8), KINDS.ALLGATHER, True)
    confirmed, rates = TreeOptimum._confirmed, []

    def seen(self: TreeOptimum, rate: Fraction | None) -> object:
        rates.append(rate)
        return confirmed(self, rate) if rate is None or not is_refused else None

    monkeypatch.setattr(TreeOptimum, "_confirmed", seen)
    for is_refused in (False, True):
        rates.clear()
        found = group_optimum(fabric, collective)
        assert found.is_exact
        assert [rate is None for rate in rates] == [False, True][: 1 + is_refused]
