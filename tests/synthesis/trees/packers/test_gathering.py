"""Equal trees by swaps: fewer of them, as low as before, at the same loads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from samples.strategies import eulerian_topologies
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import ForestSchedule
from treadle.synthesis.trees import Packer, TreeBudget, synthesise
from treadle.synthesis.trees.fixed_trees import floor_capacities
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.packers.improvement import gather_trees
from treadle.synthesis.trees.packers.local_search import link_units, packing_height, reduce_tree_heights
from treadle.synthesis.trees.packers.tree_packing import Packing, from_forest, to_forest
from treadle.topologies import Topology, parse
from treadle.verification.schedules import verify


def gathered(topology: Topology) -> tuple[Packing, Packing]:
    """Local search on what growth made, and then equal trees; the result is verified."""
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    grown = synthesise(topology, collective, budget=TreeBudget(max_trees=4), packer=Packer.GROWTH)
    problem = instance_of(topology, collective)
    capacities = floor_capacities(problem.bandwidths, grown.schedule.total_units / grown.algbw)
    graph, packing = from_forest(problem, grown.schedule.forests[0])
    low = reduce_tree_heights(problem, graph, packing, capacities=capacities)
    new_graph, packing = gather_trees(problem, low.graph, low.packing)
    forest = to_forest(problem, new_graph, packing)
    schedule = ForestSchedule(CollectiveKind.ALLGATHER, broadcast=forest)
    report = verify(topology, collective, schedule, claimed_algbw=grown.algbw)
    assert not report.violations
    assert report.height_max == packing_height(packing) <= packing_height(low.packing)
    n_links = len(problem.tails)
    assert np.all(link_units(new_graph, n_links) <= link_units(low.graph, n_links))
    assert np.array_equal(forest.root_multiplicity, grown.schedule.root_multiplicity)
    return low.packing, packing


@settings(max_examples=15, deadline=None, derandomize=True)
@given(eulerian_topologies(compute=(3, 7), switches=(1, 4)))
def test_random_fabrics_keep_loads_and_heights_with_no_more_trees(topology: Topology) -> None:
    before, after = gathered(topology)
    assert len(after.root) <= len(before.root)


@pytest.mark.parametrize(
    ("name", "share"), [("torus(4,8)", 0.7), ("hypercube(5)", 0.7), ("jellyfish(32,4)", 0.7)]
)
def test_most_trees_of_regular_fabrics_become_equal(name: str, share: float) -> None:
    before, after = gathered(parse(name))
    assert len(after.root) <= share * len(before.root)


def test_the_same_arguments_give_the_same_trees() -> None:
    one, other = (gathered(parse("torus(4,4)"))[1] for _ in range(2))
    assert np.array_equal(one.parent, other.parent)
    assert np.array_equal(one.multiplicity, other.multiplicity)


def test_trees_that_are_few_are_left_alone() -> None:
    topology = parse("dgx_a100(4)")
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    problem = instance_of(topology, collective)
    graph, packing = from_forest(problem, synthesise(topology, collective).schedule.forests[0])
    assert len(packing.root) == len(problem.terminals)
    assert gather_trees(problem, graph, packing) == (graph, packing)
