"""Height-first: trees within the height that was asked for and within capacities, or a reason."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings

from samples.strategies import eulerian_topologies
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.trees import Packer, TreeBudget, synthesise
from treadle.synthesis.trees.heights import smallest_height
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.synthesis.trees.packers.height_first import pack_height_first
from treadle.synthesis.trees.packers.improvement import route_trees
from treadle.synthesis.trees.packers.local_search import link_units, packing_height
from treadle.synthesis.trees.packers.packed import PackingAttempt
from treadle.topologies import Topology, TopologyBuilder, parse
from treadle.verification.schedules import verify


def instance(topology: Topology) -> Instance:
    return instance_of(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))


def star(ranks: int, bandwidth: int) -> Instance:
    builder = TopologyBuilder("star")
    top = builder.switch("top")
    for i in range(ranks):
        builder.duplex(builder.compute(f"gpu{i}"), top, bandwidth)
    return instance(builder.build())


@settings(max_examples=15, deadline=None, derandomize=True)
@given(eulerian_topologies(compute=(3, 7), switches=(1, 4)))
def test_random_fabrics_keep_their_optimum(topology: Topology) -> None:
    budget = TreeBudget(max_trees=3)
    for kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER):
        collective = on_all_ranks(topology, kind)
        grown = synthesise(topology, collective, budget=budget, packer=Packer.GROWTH)
        low = synthesise(topology, collective, budget=budget, packer=Packer.HEIGHT_FIRST)
        assert low.algbw == grown.algbw
        assert not verify(topology, collective, low.schedule, claimed_algbw=low.algbw).violations


def test_a_star_needs_no_relaying() -> None:
    problem = star(8, 7)
    found = pack_height_first(problem, problem.bandwidths, problem.weights, heights=range(1, 2))
    assert found.graph is not None
    assert found.packing is not None
    assert packing_height(found.packing) == 1
    assert np.array_equal(link_units(found.graph, len(problem.tails)), problem.bandwidths)


def test_capacities_are_not_exceeded_for_lack_of_room() -> None:
    problem = star(8, 6)  # 7 units have to enter everywhere, and as many leave
    found = pack_height_first(problem, problem.bandwidths, problem.weights, heights=range(1, 4))
    assert found.graph is None
    assert found.outcome == "failed: 16 units too many on their links at height 3"


@pytest.mark.parametrize(
    ("name", "height"),
    [("leaf_spine(8,4,oversubscription=2)", 2), ("leaf_spine(4,2)", 1), ("fat_tree(4)", 1)],
)
def test_fabrics_whose_ranks_bind(name: str, height: int) -> None:
    topology = parse(name)
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    result = synthesise(topology, collective, packer=Packer.HEIGHT_FIRST)
    report = verify(topology, collective, result.schedule, claimed_algbw=result.algbw)
    assert (result.packer, report.height_max, report.violations) == ("height-first", height, ())
    assert result.algbw == result.bound.algbw


def test_tight_boxes_are_left_to_others() -> None:
    topology = parse("mi250(2)")
    problem = instance(topology)
    forest = synthesise(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER), packer=Packer.GROWTH)
    units = forest.schedule.total_units / forest.algbw
    capacities = np.array([int(b * units) for b in problem.bandwidths.tolist()], dtype=np.int64)
    found = route_trees(problem, capacities, forest.schedule.root_multiplicity)
    assert isinstance(found, PackingAttempt)
    assert found.outcome == "not tried: some set of several ranks is tight, and no single rank"


def test_bound_of_the_height() -> None:
    problem = star(4, 3)
    assert smallest_height(problem, problem.weights, problem.bandwidths) == 1
    assert smallest_height(problem, 2 * problem.weights, problem.bandwidths) == 2  # 6 units, 3 leave
    torus = instance(parse("torus(4,4)"))
    assert smallest_height(torus, torus.weights, torus.bandwidths) == 4
    box = instance(parse("dgx_h100(2)"))  # the NVSwitch leads to 7 of 15
    inside = np.isin(box.heads, [8, 17]) | np.isin(box.tails, [8, 17])
    assert smallest_height(box, box.weights, np.where(inside, 1000, 7)) == 2
    assert smallest_height(box, box.weights, np.where(inside, 1000, 8)) == 1


def test_a_set_that_is_entered_once_adds_its_radius() -> None:
    builder = TopologyBuilder("two lines")
    top = builder.switch("top")
    for box in "ab":
        ranks = [builder.compute(f"{box}{i}") for i in range(5)]
        for one, other in pairwise(ranks):
            builder.duplex(one, other, 100)
        for rank in ranks:
            builder.duplex(rank, top, 1)
    problem = instance(builder.build())
    fast = np.where(problem.bandwidths == 100, 100, 1)
    assert (
        smallest_height(problem, problem.weights, fast) == 3
    )  # 5 units for 5 trees; the middle is 2 hops away
    assert smallest_height(problem, problem.weights, np.where(problem.bandwidths == 100, 100, 2)) == 2
