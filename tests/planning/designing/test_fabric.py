"""`describe_fabric` against networkx, published values, and limits."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import networkx as nx
import pytest

from harness.summaries import fabric_summary
from treadle.planning import FactLimits, describe_fabric
from treadle.topologies import Topology, parse

FABRICS = [
    "kautz(2, 2)", "torus(3, 4)", "hypercube(3)", "jellyfish(10, 3)", "de_bruijn(2, 3)", "diamond()",
    "double_binary_tree(6)", "directed_circulant(9, 1, 2, 5)", "uni_ring(2, 5)", "dragonfly(2, 1)",
    "random_regular_digraph(9, 2, seed=1)", "star(5)",
]  # fmt: skip


def digraph(topology: Topology) -> nx.MultiDiGraph:
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(topology.n_nodes))
    graph.add_edges_from(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
    return graph


@pytest.mark.parametrize("expression", FABRICS)
def test_facts_agree_with_networkx(expression: str) -> None:
    topology = parse(expression)
    facts, graph = describe_fabric(topology), digraph(topology)
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    counts = Counter(distance for row in lengths.values() for distance in row.values())
    assert facts.distances is not None
    assert facts.distances.pairs == tuple(counts[t] for t in range(max(counts) + 1))
    assert facts.diameter == nx.diameter(graph)
    assert facts.distances.mean == Fraction(
        sum(t * count for t, count in counts.items()), topology.n_nodes * (topology.n_nodes - 1)
    )
    degrees = [d for _, d in (*graph.in_degree(), *graph.out_degree())]
    assert facts.degrees == (min(degrees), max(degrees))
    assert facts.is_reverse_symmetric == nx.is_isomorphic(graph, graph.reverse())
    maps = nx.isomorphism.MultiDiGraphMatcher(graph, graph).isomorphisms_iter()
    assert facts.is_vertex_transitive == ({m[0] for m in maps} == set(graph))
    assert facts.is_bidirectional == (Counter(graph.edges()) == Counter(graph.reverse().edges()))


@pytest.mark.parametrize("expression", FABRICS)
def test_no_fact_beats_its_bound(expression: str) -> None:
    facts = describe_fabric(parse(expression))
    assert facts.allgather is not None
    assert facts.reduce_scatter is not None
    assert facts.allgather.diameter == facts.reduce_scatter.diameter == facts.diameter
    if facts.bounds is None:
        assert facts.degree is None
        return
    assert facts.distances is not None
    assert facts.diameter is not None
    assert facts.diameter >= facts.bounds.steps
    assert facts.is_moore_optimal == (facts.diameter == facts.bounds.steps)
    assert facts.distances.mean is not None
    assert facts.distances.mean >= facts.bounds.mean_distance
    assert min(facts.allgather.t_b, facts.reduce_scatter.t_b) >= facts.bounds.t_b
    assert facts.distances.pair_rate is not None
    assert facts.bounds.pair_rate is not None
    assert facts.distances.pair_rate <= facts.bounds.pair_rate
    if facts.is_bidirectional:
        assert facts.bounds.steps_bidirectional is not None
        assert facts.diameter >= facts.bounds.steps_bidirectional


def test_cayley_digraphs_are_known_by_one_orbit() -> None:
    named = parse('metacyclic_cayley(8, 2, 3, 2, 3, bandwidth="3B/s")')
    unnamed = replace(named, name="x")
    assert fabric_summary(describe_fabric(named)) == fabric_summary(describe_fabric(unnamed))
    few = FactLimits(distance_nodes=1, breadth_first_pairs=1)
    assert fabric_summary(describe_fabric(named, limits=few)) == fabric_summary(describe_fabric(unnamed))
    # links of different bandwidths: the name alone is no proof
    bandwidths = named.bandwidths.copy()
    bandwidths[0] = 5
    facts = describe_fabric(replace(named, bandwidths=bandwidths))
    assert facts.is_vertex_transitive is False
    assert facts.allgather is not None
    assert facts.allgather.node_bandwidth is None


def test_lifted_limits_compute_more() -> None:
    topology = parse("complete(30)")
    assert describe_fabric(topology, limits=FactLimits(regularity_pairs=0)).is_distance_regular is None
    assert describe_fabric(topology, limits=FactLimits.lifted()).is_distance_regular
