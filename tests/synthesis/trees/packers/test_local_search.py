"""Local search: the same throughput and roots, never higher, as low as is known to be possible."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from samples.strategies import eulerian_topologies
from treadle.context import Context, under
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import Direction, ForestSchedule
from treadle.synthesis.trees import Packer, TreeBudget, synthesise
from treadle.synthesis.trees.fixed_trees import floor_capacities
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.packers.local_search import (
    LocalOptimum,
    link_units,
    packing_height,
    reduce_tree_heights,
)
from treadle.synthesis.trees.packers.tree_packing import from_forest, to_forest
from treadle.topologies import Topology, parse
from treadle.verification.schedules import verify


def searched(
    topology: Topology,
    kind: CollectiveKind = CollectiveKind.ALLGATHER,
    *,
    own_links_only: bool = False,
    max_work: int | None = None,
    deadline: float | None = None,
) -> LocalOptimum:
    """Growth, then the search; the result is verified at the exact optimum's throughput."""
    collective = on_all_ranks(topology, kind)
    grown = synthesise(topology, collective, budget=TreeBudget(max_trees=4), packer=Packer.GROWTH)
    problem = instance_of(topology, collective)
    graph, packing = from_forest(problem, grown.schedule.forests[0])
    scale = grown.schedule.total_units / grown.algbw
    capacities = None if own_links_only else floor_capacities(problem.bandwidths, scale)
    with under(Context(deadline=deadline)):
        found = reduce_tree_heights(problem, graph, packing, capacities=capacities, max_work=max_work)
    forest = to_forest(problem, found.graph, found.packing)
    schedule = ForestSchedule(
        kind,
        reduce=forest if forest.direction is Direction.REDUCE else None,
        broadcast=forest if forest.direction is Direction.BROADCAST else None,
    )
    report = verify(topology, collective, schedule, claimed_algbw=grown.algbw)
    assert not report.violations
    assert report.height_max == packing_height(found.packing) == found.after <= found.before
    assert np.array_equal(forest.root_multiplicity, grown.schedule.root_multiplicity)
    if own_links_only:
        n_links = len(problem.tails)
        assert np.all(link_units(found.graph, n_links) <= link_units(graph, n_links))
    return found


@settings(max_examples=15, deadline=None, derandomize=True)
@given(eulerian_topologies(compute=(3, 7), switches=(1, 4)))
def test_random_fabrics_keep_their_throughput_and_never_get_higher(topology: Topology) -> None:
    searched(topology)
    searched(topology, CollectiveKind.REDUCE_SCATTER, own_links_only=True)


@pytest.mark.parametrize(("name", "height"), [("mi250(1)", 6), ("pods(2,2)", 2), ("fat_tree(4)", 2)])
def test_growth_behind_switches_becomes_low(name: str, height: int) -> None:
    found = searched(parse(name))
    assert found.before > height
    assert found.after <= height


def test_pairs_of_dies_need_reversals() -> None:
    assert searched(parse("mi250(1)")).reversals > 0


def test_without_work_the_forest_stays() -> None:
    found = searched(parse("mi250(1)"), max_work=0)
    assert found.after == found.before


def test_a_passed_deadline_leaves_a_forest() -> None:
    searched(parse("mi250(1)"), deadline=time.monotonic() - 1)


def test_more_cells_or_pools_than_fit_leave_the_forest(monkeypatch: pytest.MonkeyPatch) -> None:
    module, topology = "treadle.synthesis.trees.packers.local_search", parse("pods(2,2)")
    with monkeypatch.context() as patch:
        patch.setattr(f"{module}.MAX_CELLS", 0)
        found = searched(topology)
    trees, n = found.packing.parent.shape
    assert found.after == found.before
    assert found.failure == f"{trees} trees of {n} ranks are too many"
    for name, least in (("MAX_CELLS", trees * n), ("MAX_POOLS", n * topology.n_nodes)):
        for most in (least - 1, least):
            with monkeypatch.context() as patch:
                patch.setattr(f"{module}.{name}", most)
                assert (searched(topology).failure == found.failure) == (most < least)


def test_the_same_arguments_give_the_same_trees() -> None:
    one, other = searched(parse("mi250(1)")), searched(parse("mi250(1)"))
    assert np.array_equal(one.packing.parent, other.packing.parent)
    assert np.array_equal(one.graph.path_links, other.graph.path_links)


def test_a_forest_as_a_logical_graph_and_back() -> None:
    topology = parse("mi250(1)")
    collective = on_all_ranks(topology, CollectiveKind.REDUCE_SCATTER)
    forest = synthesise(topology, collective, packer=Packer.GROWTH).schedule.forests[0]
    problem = instance_of(topology, collective)
    graph, packing = from_forest(problem, forest)
    assert np.array_equal(to_forest(problem, graph, packing).parent, forest.parent)
    short = replace(graph, segment_units=graph.segment_units - 1)
    with pytest.raises(AssertionError, match="more of a logical arc"):
        to_forest(problem, short, packing)
