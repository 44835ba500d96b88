"""Trees of the fabric as schedules: units, roots, parallel links; switches and groups as terminals."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.synthesis.trees.allreduce.pair_network import PairNetwork, network_of
from treadle.synthesis.trees.allreduce.rooted_packing import RootedPacking
from treadle.synthesis.trees.allreduce.steiner_trees import FabricTree
from treadle.synthesis.trees.allreduce.switch_terminals import terminal_fabric, terminal_network
from treadle.synthesis.trees.allreduce.tree_schedule import (
    rooted_trees_to_schedule,
    trees_to_schedule,
    unit_trees,
)
from treadle.topologies.topology import Topology, TopologyBuilder

F = Fraction
Spec = tuple[int, int, list[int], dict[int, list[tuple[tuple[int, ...], int]]]]


def network(topology: Topology) -> PairNetwork:
    return network_of(topology, on_all_ranks(topology, CollectiveKind.ALLREDUCE))


def specs_of(forest: object) -> list[Spec]:
    """Root, units, parents and paths of each tree."""
    assert isinstance(forest, Forest)
    found = []
    for root in range(forest.n_ranks):
        for tree in forest.trees(root):
            paths = {}
            for rank in range(forest.n_ranks):
                entries = range(int(tree.entry_offset[rank]), int(tree.entry_offset[rank + 1]))
                if entries:
                    paths[rank] = [
                        (tuple(forest.path(int(tree.entry_path[e])).tolist()), int(tree.entry_units[e]))
                        for e in entries
                    ]
            found.append((root, tree.multiplicity, tree.parent.tolist(), paths))
    return found


def line_with_lanes() -> Topology:
    """a - b by two links of 1 and 2 bytes/s, b - c by one of 3; links 0 to 5, one way and the other."""
    builder = TopologyBuilder("lanes")
    for name in "abc":
        builder.compute(name)
    for one, other, width in (("a", "b", 1), ("a", "b", 2), ("b", "c", 3)):
        builder.duplex(one, other, width)
    return builder.build()


def test_parallel_links_are_filled_one_after_the_other() -> None:
    """Pairs are ab 0, ba 1, bc 2, cb 3; the middle rank is the root, whatever end the tree is told from."""
    fabric = line_with_lanes()
    whole = network(fabric)
    for edges in (((0, 1, (0,)), (1, 2, (2,))), ((2, 1, (3,)), (1, 0, (1,)))):
        made = trees_to_schedule(fabric, whole, [(FabricTree(edges), F(3))])
        assert specs_of(made.broadcast) == [(1, 3, [1, -1, 1], {0: [((1,), 1), ((3,), 2)], 2: [((4,), 3)]})]
        assert specs_of(made.reduce) == [(1, 3, [1, -1, 1], {0: [((0,), 1), ((2,), 2)], 2: [((5,), 3)]})]


def triangle() -> tuple[Topology, PairNetwork, list[tuple[FabricTree, Fraction]]]:
    """Pairs ab 0, ba 1, bc 2, cb 3, ca 4, ac 5; three paths of two edges fill all links."""
    builder = TopologyBuilder("triangle")
    for name in "abc":
        builder.compute(name)
    for one, other in ("ab", "bc", "ca"):
        builder.duplex(one, other, 2)
    fabric = builder.build()
    edges = {"ab": (0, 1, (0,)), "bc": (1, 2, (2,)), "ca": (2, 0, (4,))}
    trees = [
        FabricTree((edges[one], edges[other])) for one, other in (("ab", "bc"), ("bc", "ca"), ("ca", "ab"))
    ]
    return fabric, network(fabric), [(tree, F(1, 2)) for tree in trees]


def test_as_few_units_as_lose_nothing() -> None:
    fabric, whole, trees = triangle()
    assert unit_trees(whole, trees) == 3
    made = trees_to_schedule(fabric, whole, trees)
    assert [(root, units, parent) for root, units, parent, _ in specs_of(made.broadcast)] == [
        (0, 1, [-1, 0, 0]),
        (1, 1, [1, -1, 1]),
        (2, 1, [2, 2, -1]),
    ]
    # one tree alone has two bytes/s, two share a pair and have no more
    for most in (1, 2):
        (few,) = specs_of(trees_to_schedule(fabric, whole, trees, max_units=most).broadcast)
        assert few[:3] == (1, 1, [1, -1, 1])
    # rates that leave room are met by one tree
    assert unit_trees(whole, [(tree, rate / 2) for tree, rate in trees]) == 1


def test_rounded_rates_fit_the_network() -> None:
    """Of 1000003 units at most 100 are used, and what is lost is little."""
    fabric, whole, trees = triangle()
    odd = [F(1000001, 2000006), F(1000002, 2000006), F(1, 2)]
    made = trees_to_schedule(
        fabric, whole, [(t, r) for (t, _), r in zip(trees, odd, strict=True)], max_units=100
    )
    units = [one[1] for one in specs_of(made.broadcast)]
    assert units == [1, 1, 1]


def test_rooted_trees_as_they_are() -> None:
    """Out-trees from a and c, in-trees to the same, told from their roots outwards."""
    fabric, whole, _ = triangle()
    star = FabricTree(((0, 1, (0,)), (0, 2, (5,))), root=0)
    chain = FabricTree(((2, 1, (3,)), (1, 0, (1,))), root=2)
    into = FabricTree(((0, 1, (1,)), (1, 2, (3,))), root=0)
    back = FabricTree(((2, 0, (5,)), (2, 1, (2,))), root=2)
    packing = RootedPacking(F(5, 6), ((star, F(1, 2)), (chain, F(1, 3))), ((into, F(1, 2)), (back, F(1, 3))))
    made = rooted_trees_to_schedule(fabric, whole, packing, max_units=5)
    assert isinstance(made, ForestSchedule)
    assert specs_of(made.broadcast) == [
        (0, 3, [-1, 0, 0], {1: [((0,), 3)], 2: [((5,), 3)]}),
        (2, 2, [1, 2, -1], {0: [((1,), 2)], 1: [((3,), 2)]}),
    ]
    assert specs_of(made.reduce) == [
        (0, 3, [-1, 0, 1], {1: [((1,), 3)], 2: [((3,), 3)]}),
        (2, 2, [2, 2, -1], {0: [((5,), 2)], 1: [((2,), 2)]}),
    ]
    assert rooted_trees_to_schedule(fabric, whole, packing, max_units=4) is None


def with_terminals(*, taken: bool) -> Topology:
    """Ranks b and c; a switch that is asked and has all three, one that works by itself; a name in use."""
    builder = TopologyBuilder("terminals")
    builder.switch("s", multicast=True, aggregation=True)
    builder.compute("group 0" if taken else "a")
    builder.compute("b")
    builder.switch("t", multicast=True, aggregation=True, turns_round=True)
    builder.compute("c")
    for name in ("group 0" if taken else "a", "b", "c"):
        builder.duplex(name, "s", 4)
        builder.duplex(name, "t", 6)
    return builder.build()


@pytest.mark.parametrize("taken", [False, True])
def test_switches_and_groups_as_terminals(taken: bool) -> None:
    """Ranks 4, 1, 2, then switch 3, then the group as node 5, behind links of 2 bytes/s, the unit."""
    fabric = with_terminals(taken=taken)
    collective = Collective(CollectiveKind.ALLREDUCE, (4, 1, 2))
    whole = network_of(fabric, collective)
    visiting = terminal_network(whole)
    assert visiting.ranks == (4, 1, 2, 3, 5)
    assert (visiting.multicast, visiting.aggregation) == (frozenset(), frozenset())
    there, all_of, small = terminal_fabric(fabric, collective, visiting)
    assert there.node_names == (*fabric.node_names, "group 1" if taken else "group 0")
    assert there.is_compute.tolist() == [False, True, True, True, True, True]
    ends = list(zip(there.tails.tolist(), there.heads.tolist(), there.bandwidths.tolist(), strict=True))
    assert ends[:12] == list(
        zip(fabric.tails.tolist(), fabric.heads.tolist(), fabric.bandwidths.tolist(), strict=True)
    )
    members = whole.groups[0].members
    assert members == (4, 1, 2)
    assert ends[12:] == [(v, 5, 2) for v in members] + [(5, v, 2) for v in members]
    assert (all_of.kind, all_of.ranks) == (CollectiveKind.ALLREDUCE, (4, 1, 2, 3, 5))
    assert (small.n_nodes, small.n_pairs, small.groups) == (6, 18, ())
    assert small.capacity == (*whole.capacity, *[1] * 6)
    assert small.links[12:] == tuple((12 + i,) for i in range(6))
    assert list(zip(small.tails, small.heads, strict=True))[12:] == [end[:2] for end in ends[12:]]
