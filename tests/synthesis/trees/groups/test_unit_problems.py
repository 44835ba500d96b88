"""Whole unit trees, and numberings that do not depend on the numbers of nodes and links."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samples.strategies import eulerian_topologies
from treadle.errors import InfeasibleError, ScheduleError
from treadle.synthesis.trees.groups.group_optimum import GroupAllocation
from treadle.synthesis.trees.groups.unit_problems import LinkUnits, UnitProblem, unit_allocation, unit_problem
from treadle.topologies import Topology, parse
from treadle.topologies.topology import TopologyBuilder


def posed(topology: Topology, members: list[int], *, outward: bool = True) -> UnitProblem:
    """All of every link for one group with a tree at each member."""
    share = LinkUnits(np.arange(topology.n_links), topology.bandwidths)
    return unit_problem(topology, members, np.ones(len(members), dtype=np.int64), share, outward=outward)


def renumbered(topology: Topology, nodes: list[int], links: list[int]) -> Topology:
    """The same fabric: old node and old link at each new place."""
    place = np.argsort(nodes)
    return Topology(
        name="renumbered",
        node_names=tuple(topology.node_names[v] for v in nodes),
        is_compute=topology.is_compute[nodes],
        tails=place[topology.tails[links]],
        heads=place[topology.heads[links]],
        bandwidths=topology.bandwidths[links],
    )


def check_renumbered(topology: Topology, random: Random) -> None:
    """Another numbering gives an equal problem, whose links are the same links."""
    nodes = random.sample(range(topology.n_nodes), topology.n_nodes)
    links = random.sample(range(topology.n_links), topology.n_links)
    other, members = renumbered(topology, nodes, links), topology.compute_nodes.tolist()
    one, two = posed(topology, members), posed(other, [nodes.index(v) for v in members])
    assert one.key == two.key
    for part in (
        topology.bandwidths,
        topology.is_compute[topology.tails],
        topology.is_compute[topology.heads],
    ):
        assert np.array_equal(part[one.links], part[np.array(links)[two.links]])
    for ends, theirs in ((topology.tails, other.tails), (topology.heads, other.heads)):
        there = np.array(nodes)[theirs[two.links]]
        is_rank = topology.is_compute[ends[one.links]]
        assert np.array_equal(ends[one.links][is_rank], there[is_rank]), "members keep their places"


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    eulerian_topologies(compute=(2, 5), switches=(1, 5), max_bandwidth=2), st.randoms(use_true_random=False)
)
def test_random_fabrics_do_not_depend_on_their_numbering(topology: Topology, random: Random) -> None:
    check_renumbered(topology, random)


@pytest.mark.parametrize("name", ["leaf_spine(4,8,gpus_per_leaf=2)", "rail_optimized(3)", "dgx_h100(3)"])
@pytest.mark.parametrize("seed", range(3))
def test_nodes_that_look_alike_do_not_depend_on_their_numbering(name: str, seed: int) -> None:
    """Spines, and the eight NICs of a rank's switch: whichever comes first, the problem is the same."""
    check_renumbered(parse(name), Random(seed))


@pytest.mark.parametrize("seed", range(4))
def test_nodes_are_told_apart_by_what_their_arcs_hold(seed: int) -> None:
    """Two switches between the same ranks, and two behind them, as wide in all."""
    builder = TopologyBuilder("crossed")
    names = [builder.compute(f"gpu{i}") for i in range(2)]
    for width in (1, 2):
        first, second = builder.switch(f"first{width}"), builder.switch(f"second{width}")
        for tail, head in ((names[0], first), (first, second), (second, names[1]), (names[1], names[0])):
            builder.link(tail, head, width)
    check_renumbered(builder.build(), Random(seed))


def test_forwarding_ranks_of_another_group_are_between_members() -> None:
    topology = parse("leaf_spine(4,8,gpus_per_leaf=2)")
    problems = [posed(topology, topology.compute_nodes[first::2].tolist()) for first in (0, 1)]
    assert len(problems[0].nodes) == topology.n_nodes
    assert problems[0].key == problems[1].key


def test_another_capacity_or_root_is_another_problem() -> None:
    topology = parse("ring(3)")
    held = np.ones(6, dtype=np.int64)
    share, roots = LinkUnits(np.arange(6), held), held[:3]
    others = [
        unit_problem(topology, [0, 1, 2], roots, share, outward=True),
        unit_problem(topology, [0, 1, 2], roots, LinkUnits(np.arange(6), held * 2), outward=True),
        unit_problem(topology, [0, 1, 2], roots * 2, share, outward=True),
        unit_problem(topology, [0, 1, 2], roots, LinkUnits(np.arange(5), held[:5]), outward=True),
        unit_problem(topology, [0, 2], roots[:2], share, outward=True),
    ]
    assert len({one.key for one in others}) == 5
    assert unit_problem(topology, [1, 2, 0], roots, share, outward=True).key == others[0].key


def test_in_trees_are_posed_on_arcs_turned_round() -> None:
    topology = parse("generalized_kautz(2,6)")
    out, into = (posed(topology, [0, 2, 4], outward=outward) for outward in (True, False))
    arcs = {(out.nodes[t], out.nodes[h]) for t, h in zip(out.tails, out.heads, strict=True)}
    turned = {(into.nodes[h], into.nodes[t]) for t, h in zip(into.tails, into.heads, strict=True)}
    assert arcs == turned


def shares(roots: list[int], bandwidths: list[int]) -> GroupAllocation:
    """Shares of the links 0, 1, ..., in millionths."""
    return GroupAllocation(
        np.arange(len(bandwidths)), np.array(bandwidths, dtype=object), tuple(roots), 10**6
    )


def test_shares_count_the_fewest_whole_trees() -> None:
    found = unit_allocation("group", [shares([30, 0], [12, 60]), shares([30, 0], [18])])
    assert found.roots.tolist() == [5, 0]
    assert [one.units.tolist() for one in found.families] == [[2, 10], [3]]
    assert [one.links.tolist() for one in found.families] == [[0, 1], [0]]


@pytest.mark.parametrize("bandwidths", [[2**51], [2**50] * 2048, [10**30]])
def test_numbers_beyond_those_of_forests_are_refused(bandwidths: list[int]) -> None:
    with pytest.raises(InfeasibleError, match=r"some group: its exact optimum takes 1 unit trees"):
        unit_allocation("some group", [shares([1], bandwidths)])


def test_both_directions_have_the_same_roots() -> None:
    with pytest.raises(ScheduleError, match="same roots"):
        unit_allocation("some group", [shares([1, 2], [3]), shares([2, 1], [3])])


def test_shares_without_data_are_refused() -> None:
    with pytest.raises(InfeasibleError, match="carry no data"):
        unit_allocation("some group", [shares([0, 0], [3])])
