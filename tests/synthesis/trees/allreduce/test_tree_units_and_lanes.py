"""Trees of the fabric as schedules: units, roots, parallel links; switches and groups as terminals."""

from __future__ import annotations

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.trees.allreduce_certificate import CutCombinationCertificate
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule, TreeSpec, forest_from_trees
from treadle.synthesis.trees.allreduce.in_network_trees import _distances, _pairs
from treadle.synthesis.trees.allreduce.pair_network import PairNetwork, network_of
from treadle.synthesis.trees.allreduce.rooted_packing import RootedPacking, _RootedMaster
from treadle.synthesis.trees.allreduce.steiner_trees import FabricTree
from treadle.synthesis.trees.allreduce.switch_terminals import (
    _joined,
    _LaneAssignment,
    _new_names,
    _operation_lanes,
    terminal_allocation,
    terminal_fabric,
    terminal_network,
)
from treadle.synthesis.trees.allreduce.tree_schedule import (
    rooted_trees_to_schedule,
    trees_to_schedule,
    unit_trees,
)
from treadle.synthesis.trees.allreduce.two_family_lp import LpOptimum
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


@pytest.mark.parametrize("seed", range(6))
def test_paths_between_ranks_pass_switches_alone(seed: int) -> None:
    """Shortest ways in a digraph of three ranks and five switches, by another library; with their pairs."""
    chance = np.random.default_rng(seed)
    builder = TopologyBuilder("random")
    for node in range(8):
        (builder.compute if node < 3 else builder.switch)(str(node))
    ends = sorted({(int(t), int(h)) for t, h in chance.integers(0, 8, (26, 2)) if t != h} | {(7, 0), (2, 7)})
    ends += [(node, 0) for node in range(8) if node and not any(node in pair for pair in ends)]
    for tail, head in ends:
        builder.link(str(tail), str(head), 1)
    whole = network_of(builder.build(), Collective(CollectiveKind.ALLREDUCE, (0, 1, 2)))
    lengths = chance.integers(1, 9, whole.n_pairs)
    distance, before = _distances(whole, lengths, 10**6)
    found = list(zip(whole.tails, whole.heads, lengths.tolist(), strict=True))
    for one in range(8):
        for other in set(range(8)) - {one}:
            graph = nx.DiGraph()
            graph.add_nodes_from(range(8))
            inside = {one, other, 3, 4, 5, 6, 7}
            graph.add_weighted_edges_from(
                (tail, head, length) for tail, head, length in found if {tail, head} <= inside
            )
            if not nx.has_path(graph, one, other):
                assert distance[one, other] >= 10**6
                continue
            assert distance[one, other] == nx.shortest_path_length(graph, one, other, weight="weight")
            pairs = _pairs(whole, one, other, before)
            assert sum(int(lengths[pair]) for pair in pairs) == distance[one, other]
            nodes = [whole.tails[pairs[0]], *(whole.heads[pair] for pair in pairs)]
            assert (nodes[0], nodes[-1]) == (one, other)
            assert [whole.tails[pair] for pair in pairs] == nodes[:-1]


def asked_star() -> tuple[Topology, PairNetwork]:
    """Ranks a, b and c at s, which copies and adds for those who ask; a by lanes of 1 and 3, b of 2 and 2."""
    builder = TopologyBuilder("asked")
    builder.switch("s", multicast=True, aggregation=True)
    for name, widths in (("a", (1, 3)), ("b", (2, 2)), ("c", (4,))):
        builder.compute(name)
        for width in widths:
            builder.duplex(name, "s", width)
    fabric = builder.build()
    return fabric, terminal_network(network(fabric))


def test_what_trees_that_visit_groups_may_use() -> None:
    """Links, then what members ask for and the whole rate to each member; sums the other way round."""
    fabric, visiting = asked_star()
    group = visiting.groups[0]
    assert visiting.ranks == (1, 2, 3, group.node)
    pairs = tuple(F(place + 1, 7) for place in range(visiting.n_pairs))
    found = LpOptimum(
        rate=F(9, 2),
        root_rates={1: F(1, 3), 3: F(5)},
        broadcast=pairs,
        reduce=pairs[::-1],
        asked=({group.node: (F(1), F(2), F(3))}, {group.node: (F(1, 2), F(0), F(4))}),
        prices=(),
        certificate=CutCombinationCertificate((), (), (), (), ()),
        is_exact=True,
    )
    shares = terminal_allocation(fabric, visiting, found)
    assert shares.root_rates == [F(1, 3), 0, 5, 0]
    assert shares.broadcast == (*pairs, 1, 2, 3, F(9, 2), F(9, 2), F(9, 2))
    assert shares.reduce == (*pairs[::-1], F(9, 2), F(9, 2), F(9, 2), F(1, 2), 0, 4)
    # each rank's operations, divided by the widths of its lanes
    stores, loads = [F(1, 4), F(3, 4), 1, 1, 3], [F(1, 8), F(3, 8), 0, 0, 4]
    assert shares.parts == [*stores, *loads]


def test_operations_divide_among_lanes() -> None:
    """Of 5 units that a asks for 5 // 4 go by the first lane, of 3 that b asks for 3 * 2 // 4."""
    fabric, visiting = asked_star()
    lanes = _operation_lanes(fabric, visiting)
    assert lanes == {10: (0, 2), 11: (4, 6), 12: (8,), 13: (1, 3), 14: (5, 7), 15: (9,)}
    trees = [
        TreeSpec(0, 5, [-1, 3, 3, 0], {3: [((10,), 5)], 1: [((14,), 5)], 2: [((15,), 5)]}),
        TreeSpec(1, 3, [3, -1, 3, 1], {3: [((11,), 3)], 0: [((13,), 3)], 2: [((15,), 3)]}),
    ]
    found = _LaneAssignment.of(fabric, forest_from_trees(Direction.BROADCAST, 4, trees), lanes)
    assert {link: found.ends[link] for link in (10, 11)} == {10: [1, 5], 11: [1, 3]}
    assert found.assign(10, 2) == [(0, 1), (1, 1)]
    assert found.assign(10, 3) == [(1, 3)]
    assert found.assign(11, 1) == [(0, 1)]
    assert found.assign(11, 2) == [(1, 2)]
    assert found.along(10, [(0, 1), (1, 4)]) == [((0,), 1), ((2,), 4)]
    # who has fewer lanes takes them in turn
    assert found.along(15, [(0, 1), (1, 4)]) == [((9,), 1), ((9,), 4)]


def test_paths_are_joined_unit_by_unit() -> None:
    upper, lower = [((1,), 2), ((2,), 1), ((3,), 4)], [((7,), 1), ((8, 9), 6)]
    wanted = [((1, 7), 1), ((1, 8, 9), 1), ((2, 8, 9), 1), ((3, 8, 9), 4)]
    assert _joined(upper, lower, Direction.BROADCAST) == wanted
    back = [((7, 1), 1), ((8, 9, 1), 1), ((8, 9, 2), 1), ((8, 9, 3), 4)]
    assert _joined(upper, lower, Direction.REDUCE) == back


def test_new_names_pass_over_those_in_use() -> None:
    builder = TopologyBuilder("taken")
    for name in ("group 1", "group 0", "group 3"):
        builder.compute(name)
    builder.link("group 0", "group 1", 1)
    assert _new_names(builder.build(), 3) == ["group 2", "group 4", "group 5"]


def test_trees_that_gain_at_potentials_of_their_roots() -> None:
    """Out-trees pay for the root and are worth 1, in-trees gain what out-trees pay; b is told before a."""
    builder = TopologyBuilder("pair")
    for name in "ab":
        builder.compute(name)
    builder.duplex("a", "b", 1)
    master = _RootedMaster(network_of(builder.build(), Collective(CollectiveKind.ALLREDUCE, (1, 0))))
    assert master.add([1.0, 1.0], [0.0, 0.0]) == 0  # out of neither root at less than 1, into none below 0
    # potentials of b and a: out of a 0.3 - 0.5, into b 0.3 - 0.9
    assert master.add([0.3, 0.3], [0.9, -0.5]) == 2
    assert [(side.stores, tree.root) for side, tree in master._columns] == [(True, 0), (False, 1)]
    assert master.add([0.3, 0.3], [0.9, -0.5]) == 0  # they are there
    # out of b 0.2 + 0.7, into a 0.2 - 0.8
    assert master.add([0.2, 0.2], [0.7, 0.8]) == 2
    assert [(side.stores, tree.root) for side, tree in master._columns[2:]] == [(True, 1), (False, 0)]
