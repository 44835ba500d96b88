"""Forests of shortest paths against a flow per node, an independent checker, and known graphs."""

from __future__ import annotations

import random
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from reference.packing_checker import SmallDigraph, faults
from treadle.engine import core
from treadle.planning import solve
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest_cost import height_max
from treadle.synthesis.core_values.integers import Wide
from treadle.synthesis.core_values.tree_values import Arcs, RootedFabric
from treadle.synthesis.trees.instance import find_violated_cut, instance_of
from treadle.synthesis.trees.optimality import optimum
from treadle.synthesis.trees.packers.shortest_trees import have_shortest_trees, pack_shortest_trees
from treadle.synthesis.trees.packers.vertex_matching import Digraph
from treadle.topologies import Topology, TopologyBuilder


def digraph(instance: SmallDigraph) -> Digraph:
    arcs = sorted(instance.capacity)
    return Digraph(
        np.array(instance.roots, dtype=np.int64),
        np.array([tail for tail, _ in arcs], dtype=np.int32),
        np.array([head for _, head in arcs], dtype=np.int32),
        np.array([instance.capacity[arc] for arc in arcs], dtype=np.int64),
    )


def hops(instance: SmallDigraph) -> dict[int, dict[int, int]]:
    graph = nx.DiGraph(arc for arc, units in instance.capacity.items() if units)
    graph.add_nodes_from(range(len(instance.roots)))
    return {v: dict(lengths) for v, lengths in nx.all_pairs_shortest_path_length(graph)}


def exists(instance: SmallDigraph) -> bool:
    """One flow per node, by another hand."""
    distance, n = hops(instance), len(instance.roots)
    for v in range(n):
        flow = nx.DiGraph()
        flow.add_nodes_from(["source", "sink"])
        wanted = 0
        for root, units in enumerate(instance.roots):
            if root == v or not units:
                continue
            if v not in distance[root]:
                return False
            wanted += units
            flow.add_edge("source", ("root", root), capacity=units)
            for (tail, head), capacity in instance.capacity.items():
                if head == v and capacity and distance[root].get(tail, n) + 1 == distance[root][v]:
                    flow.add_edge(("root", root), ("arc", tail))
                    flow.add_edge(("arc", tail), "sink", capacity=capacity)
        if nx.maximum_flow_value(flow, "source", "sink") < wanted:
            return False
    return True


def random_digraph(seed: int) -> SmallDigraph:
    """Unequal roots, some without trees; capacities near what shortest paths need."""
    chance = random.Random(seed)
    n = chance.randint(2, 9)
    capacity = {
        (u, v): chance.randint(0, 12)
        for u in range(n)
        for v in range(n)
        if u != v and chance.random() < chance.choice((0.4, 0.7, 1.0))
    }
    instance = SmallDigraph(tuple(chance.choice((0, 1, 1, 2, 3, 5)) for _ in range(n)), capacity)
    return instance if seed % 3 else tight(instance, chance)


def tight(instance: SmallDigraph, chance: random.Random) -> SmallDigraph:
    """Capacities that some trees of shortest paths use up."""
    distance, used = hops(instance), dict.fromkeys(instance.capacity, 0)
    for root, units in enumerate(instance.roots):
        for v in range(len(instance.roots)):
            for _ in range(units if v != root and v in distance[root] else 0):
                nearer = [
                    (u, w)
                    for (u, w), most in instance.capacity.items()
                    if most and w == v and distance[root].get(u, len(distance)) + 1 == distance[root][v]
                ]
                used[chance.choice(nearer)] += 1
    return SmallDigraph(instance.roots, used)


def test_random_digraphs() -> None:
    """Found just where every node's flow exists; spanning trees of shortest paths, within the capacities."""
    found, refused, divided = 0, 0, 0
    for seed in range(400):
        instance = random_digraph(seed)
        graph = digraph(instance)
        trees = pack_shortest_trees(graph)
        assert (trees is not None) == exists(instance), seed
        fits = have_shortest_trees(graph.multiplicities, graph.tails, graph.heads, graph.capacities)
        assert fits == (trees is not None)
        if trees is None:
            refused += 1
            continue
        root, multiplicity, parent = trees
        assert not faults(instance, root.tolist(), multiplicity.tolist(), parent.tolist()), seed
        distance = hops(instance)
        for r, row in zip(root.tolist(), parent.tolist(), strict=True):
            for v, above in enumerate(row):
                assert v == r or distance[r][v] == distance[r][above] + 1
        found += any(instance.roots)
        divided += len(root) > np.count_nonzero(instance.roots)
    assert found > 30
    assert refused > 30
    assert divided > 10


@pytest.mark.parametrize("n_links", [3, 70, 130])
def test_more_links_than_bits_in_a_word(n_links: int) -> None:
    """Complete bipartite: over any of its links a node hears of the others on its side."""
    trees = pack_shortest_trees(
        digraph(SmallDigraph((1,) * (2 * n_links), {
            arc: 2 for u in range(n_links) for v in range(n_links, 2 * n_links) for arc in ((u, v), (v, u))
        }))
    )  # fmt: skip
    assert trees is not None
    assert len(trees[0]) == 2 * n_links


def flows_alone(topology: Topology) -> Fraction:
    """The optimum by maximum flows, without the trees that spare them."""
    problem = instance_of(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))
    arcs = Arcs(problem.tails, problem.heads, problem.bandwidths)
    fabric = RootedFabric(problem.n_nodes, problem.terminals, problem.weights, arcs)
    low, high = Fraction(0), Fraction(int(problem.bandwidths.sum()))
    for _ in range(200):  # Newton from above, by the core's answer alone
        failed, nodes = core.find_violated_cut(
            fabric, high.denominator, Wide.of(high.numerator), 0, np.zeros(3, dtype=np.int64)
        )
        if failed < 0:
            return high
        inside = np.isin(np.arange(problem.n_nodes), nodes)
        leaves = inside[problem.tails] & ~inside[problem.heads]
        high = Fraction(int(problem.bandwidths[leaves].sum()), len(nodes))
    raise AssertionError(low)


def dense_digraph(seed: int) -> Topology:
    """Two nearly complete parts, random bandwidths, more or fewer links between: cuts of both kinds bind."""
    chance = random.Random(seed)
    builder = TopologyBuilder(f"dense({seed})")
    n = chance.randint(20, 30)
    nodes = [builder.compute(f"n{i}") for i in range(n)]
    half, thin = chance.randint(2, n - 2), chance.choice((0.1, 0.5, 1.0))
    bandwidths = chance.choice(((1,), (1,), (1, 2, 4)))
    for u in range(n):
        for v in range(n):
            crosses = (u < half) != (v < half)
            if u != v and chance.random() < (thin if crosses else 1.0):
                builder.link(nodes[u], nodes[v], chance.choice(bandwidths))
    return builder.build()


def test_optimum_of_dense_digraphs() -> None:
    """Trees of shortest paths in place of flows change no optimum, whether they exist or not."""
    spared = 0
    for seed in range(25):
        topology = dense_digraph(seed)
        collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
        found = optimum(topology, collective)
        assert found.rate == flows_alone(topology), seed
        problem = instance_of(topology, collective)
        assert (
            find_violated_cut(problem, problem.bandwidths, rate=found.rate * Fraction(1001, 1000)) is not None
        )
        spared += have_shortest_trees(
            np.full(topology.n_nodes, found.rate.numerator, dtype=np.int64),
            topology.tails, topology.heads, topology.bandwidths * found.rate.denominator,
        )  # fmt: skip
    assert 2 < spared < 25


@pytest.mark.parametrize(
    ("fabric", "height"),
    [
        ("complete(40)", 1),
        ("complete_bipartite(30,30)", 2),
        ("crown(20)", 3),
        ("hamming(2,12)", 2),
        ("paley(101)", 2),
    ],
)
def test_dense_graphs_meet_the_bound(fabric: str, height: int) -> None:
    """Diameters: 1, 2, 3, 2 and 2."""
    result = solve(fabric, "allgather", packer="shortest-paths")
    assert result.packer == "shortest-paths"
    (entry,) = result.plan.entries
    assert height_max(entry.schedule) == height
