"""`describe_fabric` against networkx, published values, and limits."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from harness.summaries import fabric_summary
from treadle.planning import FactLimits, describe_fabric
from treadle.topologies import Topology, TopologyBuilder, parse

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


def test_known_graphs() -> None:
    # Table A.3 lists Diamond as not reverse-symmetric, complete bipartite graphs as Moore- and BW-optimal
    assert describe_fabric(parse("diamond()")).is_reverse_symmetric is False
    both = describe_fabric(parse("complete_bipartite(4, 4)"))
    assert both.is_moore_optimal
    assert both.allgather is not None
    assert both.allgather.is_bw_optimal
    assert str(both.intersection_array) == "{4,3;1,4}"
    # Conjecture 1's counterexample: vertex-transitive, bidirectional, not bandwidth-optimal
    odd = describe_fabric(parse("circulant(12, 1, 3, 4, 5)"))
    assert odd.is_vertex_transitive
    assert odd.allgather is not None
    assert not odd.allgather.is_bw_optimal


def test_a_reverse_asymmetric_digraph_has_two_values() -> None:
    facts = describe_fabric(parse("generalized_kautz(4, 2000)"))
    assert facts.allgather is not None
    assert facts.reduce_scatter is not None
    assert (facts.allgather.t_b, facts.reduce_scatter.t_b) == (Fraction(661, 500), Fraction(741, 500))
    assert facts.is_reverse_symmetric is False
    assert facts.omissions == ()


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


def test_limits_are_said() -> None:
    none = FactLimits(distance_nodes=0, breadth_first_pairs=0, regularity_pairs=0, symmetry_work=0)
    facts = describe_fabric(parse("jellyfish(12, 3)"), limits=none)
    assert facts.distances is facts.allgather is facts.is_vertex_transitive is facts.diameter is None
    assert facts.is_distance_regular is None
    assert [text.partition(":")[0] for text in facts.omissions] == [
        "vertex-transitive",
        "distances",
        "breadth-first broadcast",
        "distance-regular",
    ]
    one_way = describe_fabric(parse("kautz(2, 2)"), limits=none)
    assert one_way.omissions[-1].startswith("reverse-symmetric")
    no_links = FactLimits(symmetry_links=0)
    for expression in ("hypercube(3)", "kautz(2, 2)"):
        found = describe_fabric(parse(expression), limits=no_links)
        assert any("links, at most 0" in text for text in found.omissions)
    # the breadth-first values know the diameter where distances were left out
    far = describe_fabric(parse("jellyfish(12, 3)"), limits=FactLimits(distance_nodes=0))
    assert far.diameter == describe_fabric(parse("jellyfish(12, 3)")).diameter
    assert fabric_summary(far)["moore_steps"] == 2


def test_long_fabrics_are_not_searched_for_long() -> None:
    chain = describe_fabric(parse("path(4000)"))
    assert chain.distances is None
    assert any(text.startswith("distances") for text in chain.omissions)
    assert chain.diameter == 3999


def test_lifted_limits_compute_more() -> None:
    topology = parse("complete(30)")
    assert describe_fabric(topology, limits=FactLimits(regularity_pairs=0)).is_distance_regular is None
    assert describe_fabric(topology, limits=FactLimits.lifted()).is_distance_regular


def test_opposite_links_must_be_alike() -> None:
    def pair(back: int, latency: int) -> Topology:
        builder = TopologyBuilder("pair")
        one, other = builder.compute("a"), builder.compute("b")
        builder.link(one, other, bandwidth=2, latency_ns=0)
        builder.link(other, one, bandwidth=back, latency_ns=latency)
        return builder.build()

    assert describe_fabric(pair(2, 0)).is_bidirectional
    assert not describe_fabric(pair(1, 0)).is_bidirectional
    assert not describe_fabric(pair(2, 1)).is_bidirectional


def test_injection_caps_are_not_known_to_breadth_first_broadcast() -> None:
    ring = parse("ring(4)")
    capped = replace(ring, injection_bytes_per_s=np.full(4, 1))
    facts = describe_fabric(capped)
    assert facts.allgather is None
    assert any("injection caps" in text for text in facts.omissions)


def test_many_parallel_links_are_left_out() -> None:
    """Breadth-first values take time with the square of a node's links."""
    few = replace(FactLimits(), breadth_first_degree=5)
    facts = describe_fabric(parse("uni_ring(6, 3)"), limits=few)
    assert facts.allgather is None
    assert any("6 links into a node, at most 5" in omission for omission in facts.omissions)
    assert describe_fabric(parse("uni_ring(5, 3)"), limits=few).allgather is not None
