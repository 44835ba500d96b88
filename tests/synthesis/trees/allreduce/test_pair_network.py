"""Pairs, groups, cuts, trees and shares of odd fabrics, by hand and against brute force."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import combinations, product

import numpy as np
import pytest

from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import Direction, Forest
from treadle.synthesis.trees.allreduce.capacities import (
    IntegralAllocation,
    LinkAllocation,
    integral_allocation,
    pack_allocation,
)
from treadle.synthesis.trees.allreduce.in_network_trees import in_network_tree, minimum_arborescence
from treadle.synthesis.trees.allreduce.pair_network import PairNetwork, SwitchGroup, network_of
from treadle.synthesis.trees.allreduce.separation import violated_cuts
from treadle.synthesis.trees.allreduce.steiner_trees import FabricTree, spanning_tree
from treadle.topologies.topology import Topology, TopologyBuilder

K = CollectiveKind


def odd_fabric() -> Topology:
    """Ranks a, b, c and d; s copies for ranks that ask, t copies and adds by itself, u does neither."""
    builder = TopologyBuilder("odd")
    builder.compute("a")
    builder.switch("s", multicast=True)
    builder.compute("b")
    builder.switch("t", multicast=True, aggregation=True, turns_round=True)
    builder.compute("c")
    builder.compute("d")
    builder.switch("u")
    builder.switch("v", aggregation=True)
    links = [("a", "s", 6), ("a", "s", 9), ("s", "a", 12), ("b", "s", 15), ("s", "b", 15), ("c", "s", 3)]
    links += [("s", "c", 3), ("d", "s", 3), ("a", "a", 1), ("a", "t", 9), ("t", "b", 9), ("c", "u", 6)]
    links += [("a", "v", 6), ("v", "a", 6), ("d", "v", 6), ("v", "d", 6), ("u", "d", 6)]
    for tail, head, bandwidth in links:
        builder.link(tail, head, bandwidth)
    return builder.build()


def allreduce(topology: Topology, ranks: tuple[int, ...] | None = None) -> Collective:
    return Collective(K.ALLREDUCE, ranks or tuple(topology.compute_nodes.tolist()))


def test_pairs_of_a_fabric() -> None:
    """Loops are left out, parallel links add up, and 3 bytes/s are the unit; pairs come in order of links."""
    fabric = odd_fabric()
    network = network_of(fabric, allreduce(fabric, (5, 0, 2, 4)))
    ends = list(zip(network.tails, network.heads, network.capacity, network.links, strict=True))
    assert ends == [
        (0, 1, 5, (0, 1)),
        (1, 0, 4, (2,)),
        (2, 1, 5, (3,)),
        (1, 2, 5, (4,)),
        (4, 1, 1, (5,)),
        (1, 4, 1, (6,)),
        (5, 1, 1, (7,)),
        (0, 3, 3, (9,)),
        (3, 2, 3, (10,)),
        (4, 6, 2, (11,)),
        (0, 7, 2, (12,)),
        (7, 0, 2, (13,)),
        (5, 7, 2, (14,)),
        (7, 5, 2, (15,)),
        (6, 5, 2, (16,)),
    ]
    assert (network.n_nodes, network.n_vertices, network.n_pairs, network.unit) == (8, 9, 15, 3)
    assert network.reverse == (1, 0, 3, 2, 5, 4, -1, -1, -1, -1, 11, 10, 13, 12, -1)
    assert not network.is_symmetric
    assert (network.multicast, network.aggregation) == (frozenset({3}), frozenset({3}))
    assert network.branching == (3,)
    assert network.roots == (5, 0, 2, 4, 3)
    # d has no link from s, and two ranks at v are too few
    assert network.groups == (SwitchGroup(8, 1, (0, 2, 4), (0, 2, 4), (1, 3, 5), True, False),)
    assert network.full_groups == ()
    assert network.adjacency[1] == [(1, 0), (3, 2), (5, 4)]


def test_other_collectives_have_no_network() -> None:
    fabric = odd_fabric()
    with pytest.raises(ScheduleError) as refused:
        network_of(fabric, on_all_ranks(fabric, K.ALLGATHER))
    assert str(refused.value) == "expected an allreduce, found allgather"
    with pytest.raises(ScheduleError, match="'d'"):
        network_of(fabric, allreduce(fabric, (0, 2, 4)))


def star(*widths: int, up: int = 0, multicast: bool = True, aggregation: bool = True) -> Topology:
    """Ranks r0, r1, ... at a switch that is asked, node 0, by links of these widths; r0's up by `up` more."""
    builder = TopologyBuilder("star")
    builder.switch("s", multicast=multicast, aggregation=aggregation)
    for rank, width in enumerate(widths):
        builder.compute(f"r{rank}")
        builder.link(f"r{rank}", "s", width + (up if rank == 0 else 0))
        builder.link("s", f"r{rank}", width)
    return builder.build()


def network(topology: Topology) -> PairNetwork:
    return network_of(topology, allreduce(topology))


def test_pairs_that_are_alike_both_ways() -> None:
    assert network(star(2, 3, 5)).is_symmetric
    assert not network(star(2, 3, 5, up=1)).is_symmetric
    assert [len(network(star(*[2] * n)).groups) for n in (2, 3, 4)] == [0, 1, 1]
    full = network(star(2, 4, 6))
    assert full.full_groups == full.groups
    assert full.capacity == (1, 1, 2, 2, 3, 3)
    assert network(star(2, 4, 6, multicast=False)).full_groups == ()


def test_parallel_links_that_divide_unevenly() -> None:
    def uneven(*widths: Sequence[int]) -> bool:
        builder = TopologyBuilder("lanes")
        builder.switch("s", multicast=True)
        for rank, lanes in enumerate(widths):
            builder.compute(f"r{rank}")
            for width in lanes:
                builder.duplex(f"r{rank}", "s", width)
        fabric = builder.build()
        return network(fabric).has_uneven_groups(fabric)

    assert not uneven((2, 4), (3, 6), (10, 20))
    assert uneven((2, 4), (3, 6), (20, 10))
    assert uneven((2, 4), (6,), (2, 4))
    assert not uneven((5,), (7,), (1,))


def test_groups_on_a_side_of_a_cut() -> None:
    """A group is on the side of all its members, wherever it was put, unless it stands for a rank."""
    fabric = odd_fabric()
    whole = network(fabric)
    assert whole.with_full_groups([0, 2, 5]) == {0, 2, 5}
    assert whole.with_full_groups([0, 2, 4]) == {0, 2, 4, 8}
    assert whole.with_full_groups([0, 8]) == {0}
    renumbered = whole.with_groups([])
    assert (renumbered.groups, renumbered.n_vertices) == ((), 8)
    two = whole.with_groups([whole.groups[0], whole.groups[0]])
    assert [group.node for group in two.groups] == [8, 9]


def test_crossings_of_operations() -> None:
    """Rank 1 (node 1) asks: its way up, all ways down; edges of the group itself count no more."""
    whole = network(star(2, 2, 2, 2))
    group = whole.groups[0]
    assert (group.node, group.members, group.up, group.down) == (5, (1, 2, 3, 4), (0, 2, 4, 6), (1, 3, 5, 7))
    tree = FabricTree(
        ((2, 5, (2,)), (5, 1, (1,)), (5, 3, (5,)), (3, 4, (4, 7))), root=2, operations=((group, 2),)
    )
    assert tree.crossings() == {4: 1, 7: 2, 2: 1, 1: 1, 3: 1, 5: 1}
    assert tree.usage(whole) == {4: 2, 6: 2, 2: 2, 0: 1}
    assert tree.length(whole, [1, 1, 10, 10, 100, 100, 1000, 1000]) == 2221
    plain = FabricTree(((2, 4, (2, 7)), (4, 1, (6, 1))))
    assert plain.crossings() == {2: 1, 7: 1, 6: 1, 1: 1}
    assert plain.usage(whole) == {2: 1, 6: 2, 0: 1}


@pytest.mark.parametrize("seed", range(6))
def test_shortest_spanning_trees_of_ranks(seed: int) -> None:
    """Against all sets of path distances: a minimum spanning tree of the complete graph of terminals."""
    chance, builder = np.random.default_rng(seed), TopologyBuilder("random")
    for name in "abcd":
        builder.compute(name)
    for name in "stu":
        builder.switch(name)
    pairs: list[tuple[str, str]] = [
        pair for pair in combinations("abcdstu", 2) if chance.random() < 0.5 or pair[1] == "u"
    ]
    for one, other in pairs:
        builder.duplex(one, other, 3)
    fabric = builder.build()
    whole = network(fabric)
    half = {pair: int(chance.integers(1, 40)) for pair in pairs}
    names = fabric.node_names
    lengths = [
        half.get((names[t], names[h])) or half[names[h], names[t]]
        for t, h in zip(whole.tails, whole.heads, strict=True)
    ]
    tree = spanning_tree(whole, lengths, whole.ranks)
    far = [[0 if i == j else 10**6 for j in range(7)] for i in range(7)]
    for t, h, length in zip(whole.tails, whole.heads, lengths, strict=True):
        far[t][h] = length
    for k, i, j in product(range(7), repeat=3):
        far[i][j] = min(far[i][j], far[i][k] + far[k][j])
    joined, total = {0}, 0
    while len(joined) < 4:  # Prim
        step, rank = min((far[i][j], j) for i in joined for j in range(4) if j not in joined)
        joined.add(rank)
        total += step
    assert tree is not None
    assert sum(lengths[pair] for _, _, path in tree.edges for pair in path) == total
    assert len(tree.edges) == 3
    for first, last, path in tree.edges:
        nodes = [whole.tails[path[0]], *(whole.heads[pair] for pair in path)]
        assert (nodes[0], nodes[-1]) == (first, last)
        assert [whole.tails[pair] for pair in path] == nodes[:-1]


def test_terminals_that_are_not_joined_have_no_tree() -> None:
    builder = TopologyBuilder("apart")
    for name in "abcd":
        builder.compute(name)
    builder.duplex("a", "b", 1)
    builder.duplex("c", "d", 1)
    whole = network(builder.build())
    assert spanning_tree(whole, [1] * 4, whole.ranks) is None


def arborescence(cost: np.ndarray[tuple[int, int], np.dtype[np.float64]], root: int) -> float:
    """The least cost of all."""
    n, best = len(cost), float("inf")
    for above in product(range(n), repeat=n - 1):
        parent = [*above[:root], -1, *above[root:]]
        for start in range(n):
            at, hops = start, 0
            while at != root and hops <= n:
                at, hops = parent[at], hops + 1
            if hops > n:
                break
        else:
            best = min(best, sum(float(cost[p, v]) for v, p in enumerate(parent) if p >= 0))
    return best


@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(8))
def test_cheapest_arborescences(n: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    cost = chance.integers(1, 12, (n, n)).astype(float)
    cost[chance.random((n, n)) < 0.2] = 1000
    root = seed % n
    before = cost.copy()
    parents = minimum_arborescence(cost, root, 1000)
    assert np.array_equal(cost, before)
    assert [v for v, p in enumerate(parents) if p < 0] == [root]
    total = sum(float(cost[p, v]) for v, p in enumerate(parents) if p >= 0)
    assert total == arborescence(cost, root)


def test_trees_that_ask() -> None:
    """With the group an operation is shorter than three sends; without it, or for two, sends are."""
    whole = network(star(2, 2, 2, 2))
    finder = partial(in_network_tree, whole)
    lengths = [3, 1, 3, 1, 3, 1, 3, 1]  # dear ways up, cheap ways down
    tree = finder(lengths, [], whole.groups)
    assert tree is not None
    assert tree.operations == ((whole.groups[0], tree.root),)
    assert tree.length(whole, [3] * 8) == 3 * 5
    plain = finder(lengths, [], [])
    assert plain is not None
    assert plain.operations == ()
    assert sum(lengths[pair] * n for pair, n in plain.crossings().items()) == 3 * (3 + 1)
    weighed = finder(lengths, [], whole.groups, [5, 5, 0, 5])
    assert weighed is not None
    assert weighed.root == whole.ranks[2]


def test_an_operation_for_one_rank_is_a_path() -> None:
    """r1 has the data from r0 for nothing; r2 alone is served by the group, by the way up of r0 and down."""
    builder = TopologyBuilder("three")
    builder.switch("s", multicast=True)
    for rank in range(3):
        builder.duplex(builder.compute(f"r{rank}"), "s", 2)
    builder.duplex("r0", "r1", 2)
    whole = network(builder.build())
    lengths = [5, 2, 5, 2, 5, 2, 0, 0]
    tree = in_network_tree(whole, lengths, [], whole.groups, [0, 9, 9])
    assert tree is not None
    assert (tree.root, tree.operations) == (1, ())
    assert sorted(tree.edges) == [(1, 2, (6,)), (1, 3, (0, 5))]


def cuts(
    n: int, arcs: Sequence[tuple[int, int, int]], supply: dict[int, int], sink: int
) -> dict[frozenset[int], int]:
    """Shortfall of every set that leaves out the sink."""
    found = {}
    others = [node for node in range(n) if node != sink]
    for size in range(1, n):
        for nodes in combinations(others, size):
            out = sum(room for tail, head, room in arcs if tail in nodes and head not in nodes)
            found[frozenset(nodes)] = sum(supply.get(node, 0) for node in nodes) - out
    return found


@pytest.mark.parametrize("seed", range(12))
def test_least_and_greatest_violated_cuts(seed: int) -> None:
    """Of every sink that falls short: of the sets that fall short most, the smallest and the largest."""
    chance, n = np.random.default_rng(seed), 5
    arcs = [(int(t), int(h), int(chance.integers(1, 7))) for t, h in chance.integers(0, n, (11, 2)) if t != h]
    supply = {0: 1, 3: 3, 1: 0}
    sinks = [3, 1, 4]
    wanted = set()
    for sink in sinks:
        every = cuts(n, arcs, supply, sink)
        most = max(every.values())
        if most > 0:
            worst = [nodes for nodes, short in every.items() if short == most]
            wanted |= {frozenset.intersection(*worst), frozenset.union(*worst)}
    assert set(violated_cuts(n, arcs, supply, sinks)) == wanted
    # smaller shortfalls are overlooked
    assert violated_cuts(n, arcs, supply, sinks, tolerance=6) == []


def test_halves_and_whole_shares() -> None:
    """Of parallel links of 6 and 9 the wider is used first; a tree is the largest size that divides all."""
    fabric = odd_fabric()
    whole = network(fabric)
    share = tuple(Fraction(b, 2) for b in whole.capacity)
    half = LinkAllocation([Fraction(1)] * 4, share, share)
    shares = integral_allocation(fabric, whole, half)
    # pair 0 has 5/2 of 3 bytes/s, links hold 2 and 3: out-trees have 0 and 5/2, in-trees 2 and 1/2
    assert shares.roots == [2] * 4
    assert shares.n_trees == 8
    assert shares.broadcast[:9] == [0, 5, 4, 5, 5, 1, 1, 1, 0]
    assert shares.reduce == [4, 1, *shares.broadcast[2:]]
    uneven = LinkAllocation(
        [Fraction(2, 3), *[Fraction(0)] * 3], half.broadcast, [Fraction(0)] * whole.n_pairs, [Fraction(1, 7)]
    )
    finer = integral_allocation(fabric, whole, uneven)  # with operations, in proportion
    assert finer.roots == [28, 0, 0, 0]
    assert finer.broadcast[:3] == [42, 63, 84]
    assert set(finer.reduce) == {0}


def no_room(*_: object) -> Forest:
    raise InfeasibleError("no room")


def test_shares_are_packed_on_the_links_that_have_some() -> None:
    """Nodes are numbered anew without switches that have nothing; links get their own numbers back."""
    fabric = odd_fabric()
    seen: list[tuple[str, tuple[int, ...], list[int], list[int]]] = []
    shares = IntegralAllocation(
        [1, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 3, 5, 0, 0, 0, 0, 2], [0, 7, 0, 0, 6, *[0] * 12]
    )

    def pack(small: Topology, collective: Collective, roots: Sequence[int]) -> Forest:
        seen.append((small.name, collective.ranks, small.bandwidths.tolist(), list(roots)))
        assert small.node_names == (
            ("a", "b", "t", "c", "d", "u") if collective.kind is K.ALLGATHER else ("a", "s", "b", "c", "d")
        )
        return Forest(
            direction=Direction.BROADCAST if collective.kind is K.ALLGATHER else Direction.REDUCE,
            root_multiplicity=np.array([1, 0, 0, 0]),
            tree_root=np.zeros(1, dtype=np.int32),
            tree_multiplicity=np.ones(1, dtype=np.int64),
            parent=np.array([[-1, 0, 0, 0]], dtype=np.int32),
            entry_offset=np.array([0, 0, 1, 2, 3]),
            entry_path=np.zeros(3, dtype=np.int32),
            entry_units=np.ones(3, dtype=np.int64),
            path_offset=np.array([0, 2]),
            path_links=np.array([1, 0], dtype=np.int32),
        )

    made = pack_allocation(fabric, allreduce(fabric, (5, 0, 2, 4)), shares, pack)
    assert seen == [
        ("shares of odd", (4, 0, 1, 3), [4, 3, 5, 2], [1, 0, 0, 0]),
        ("shares of odd", (4, 0, 2, 3), [7, 6], [1, 0, 0, 0]),
    ]
    assert isinstance(made.broadcast, Forest)
    assert isinstance(made.reduce, Forest)
    assert made.broadcast.path_links.tolist() == [10, 9]
    assert made.reduce.path_links.tolist() == [4, 1]
    shares = IntegralAllocation([1, 0, 0, 0], [*[0] * 16, 2**50], [0] * 17)
    with pytest.raises(InfeasibleError, match="no room"):  # so many are no error
        pack_allocation(fabric, allreduce(fabric), shares, no_room)
    shares = IntegralAllocation([1, 0, 0, 0], [2**50 + 1, *[0] * 16], [0] * 17)
    with pytest.raises(ScheduleError) as refused:
        pack_allocation(fabric, allreduce(fabric), shares, pack)
    assert str(refused.value) == "allreduce: the exact schedule needs more than 2**50 trees on one link"
