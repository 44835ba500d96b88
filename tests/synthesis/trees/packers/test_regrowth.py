"""Trees grown anew: the same throughput and roots, never higher, as low as is known to be possible."""

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
from treadle.synthesis.trees.packers.rebuilding import RebuiltTrees, rebuild_trees
from treadle.synthesis.trees.packers.tree_packing import pack_trees, to_forest
from treadle.synthesis.trees.switch_removal import remove_switches
from treadle.topologies import Topology, parse
from treadle.verification.schedules import verify


def regrown(
    topology: Topology,
    kind: CollectiveKind = CollectiveKind.ALLGATHER,
    *,
    max_work: int | None = None,
    deadline: float | None = None,
) -> RebuiltTrees:
    """Growth, then the search; the result is verified at the exact optimum's throughput."""
    collective = on_all_ranks(topology, kind)
    grown = synthesise(topology, collective, budget=TreeBudget(max_trees=4), packer=Packer.GROWTH)
    problem = instance_of(topology, collective)
    scale = grown.schedule.total_units / grown.algbw
    capacities = floor_capacities(problem.bandwidths, scale)
    graph = remove_switches(problem, capacities, grown.schedule.root_multiplicity)
    packing = pack_trees(problem, graph, grown.schedule.root_multiplicity)
    with under(Context(deadline=deadline)):
        found = rebuild_trees(problem, graph, packing, max_work=max_work)
    forest = to_forest(problem, graph, found.packing)
    schedule = ForestSchedule(
        kind,
        reduce=forest if forest.direction is Direction.REDUCE else None,
        broadcast=forest if forest.direction is Direction.BROADCAST else None,
    )
    report = verify(topology, collective, schedule, claimed_algbw=grown.algbw)
    assert not report.violations
    assert report.height_max == found.after <= found.before
    assert np.array_equal(forest.root_multiplicity, grown.schedule.root_multiplicity)
    if found.after == found.before:
        assert found.packing is packing
    return found


@settings(max_examples=15, deadline=None, derandomize=True)
@given(eulerian_topologies(compute=(3, 7), switches=(0, 3)))
def test_random_fabrics_keep_their_throughput_and_never_get_higher(topology: Topology) -> None:
    regrown(topology)
    regrown(topology, CollectiveKind.REDUCE_SCATTER)


@pytest.mark.parametrize(
    ("name", "height"),
    [("double_binary_tree(100)", 18), ("jellyfish(64,4)", 8), ("torus(8,8)", 12), ("hypercube(6)", 8)],
)
def test_growth_becomes_low(name: str, height: int) -> None:
    found = regrown(parse(name))
    assert found.before > height
    assert found.after <= height


def test_trees_take_arcs_from_each_other_where_nothing_is_left() -> None:
    """In a torus whose ranks all bind no arc has a unit to spare: without swaps no tree can change."""
    found = regrown(parse("torus(8,8)"))
    assert found.regrown == 0
    assert found.swaps > 0
    assert found.after < found.before


def test_bundles_are_split_where_only_some_units_find_room() -> None:
    found = regrown(parse("torus(6,6)"))
    assert found.splits > 0


def test_without_work_the_forest_stays() -> None:
    found = regrown(parse("torus(8,8)"), max_work=0)
    assert found.after == found.before


def test_a_passed_deadline_leaves_a_forest() -> None:
    regrown(parse("torus(8,8)"), deadline=time.monotonic() - 1)


def test_forests_as_low_as_the_bound_are_left_alone() -> None:
    topology = parse("torus(4,4)")
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    problem = instance_of(topology, collective)
    multiplicities = np.full(16, 4, dtype=np.int64)
    capacities = np.full(len(problem.tails), 15, dtype=np.int64)
    graph = remove_switches(problem, capacities, multiplicities)
    packing = pack_trees(problem, graph, multiplicities)
    before = rebuild_trees(problem, graph, packing, max_work=0).before
    assert rebuild_trees(problem, graph, packing, lowest=before).packing is packing
    assert rebuild_trees(problem, graph, replace(packing), lowest=before - 1).after < before
