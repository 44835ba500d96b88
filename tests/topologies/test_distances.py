"""Distances against networkx, and the bounds that follow from them."""

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samples.strategies import digraphs, eulerian_topologies
from treadle.errors import InfeasibleError, TopologyError
from treadle.topologies import (
    TopologyBuilder,
    all_to_all_bound,
    circulant,
    complete,
    de_bruijn,
    dgx_a100,
    diameter,
    distance_distribution,
    distance_matrix,
    distances,
    eccentricities,
    generalized_kautz,
    mean_distance,
    path,
    ring,
    star,
    torus,
    uni_ring,
)


def by_networkx(topology):
    graph = nx.DiGraph()
    graph.add_nodes_from(range(topology.n_nodes))
    graph.add_edges_from(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
    ranks = topology.compute_nodes.tolist()
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    return [[lengths[source][target] for target in ranks] for source in ranks]


def check(topology):
    expected = by_networkx(topology)
    matrix = distance_matrix(topology)
    assert matrix.dtype == np.int32
    assert matrix.tolist() == expected
    counts = distance_distribution(topology)
    assert counts.shape == (len(expected), max(map(max, expected)) + 1)
    assert counts.tolist() == [[row.count(t) for t in range(counts.shape[1])] for row in expected]
    assert eccentricities(topology).tolist() == [max(row) for row in expected]
    assert diameter(topology) == max(map(max, expected))
    n = len(expected)
    total = sum(map(sum, expected))
    assert mean_distance(topology) == Fraction(total, n * (n - 1))
    assert all_to_all_bound(topology) == Fraction(int(topology.egress_bytes_per_s().sum()), total)


@given(st.one_of(digraphs(compute=(2, 12)), eulerian_topologies(max_bandwidth=9)))
def test_random_fabrics_agree_with_networkx(topology):
    if len(topology.compute_nodes) > 1:
        check(topology)


@pytest.mark.parametrize(
    "topology",
    [
        *(ring(3), ring(65), ring(64, bidirectional=False), uni_ring(3, 130), path(70), star(100)),
        *(torus(5, 4, 3), complete(64), de_bruijn(2, 6), generalized_kautz(3, 200), circulant(128, 8, 9)),
        dgx_a100(2),
    ],
    ids=lambda topology: topology.name,
)
def test_graphs_agree_with_networkx(topology):
    check(topology)


@given(digraphs(compute=(3, 12)), st.data())
def test_sources_are_rows_of_the_whole(topology, data):
    sources = data.draw(st.lists(st.integers(0, topology.n_nodes - 1), min_size=1, max_size=6))
    assert np.array_equal(distance_matrix(topology, sources=sources), distance_matrix(topology)[sources])
    assert mean_distance(topology, sources=range(topology.n_nodes)) == mean_distance(topology)


def test_blocks_of_sources_join(monkeypatch):
    topology = generalized_kautz(3, 200)
    whole = distance_matrix(topology), distance_distribution(topology), mean_distance(topology)
    monkeypatch.setattr(distances, "_BLOCK", 64)
    assert np.array_equal(distance_matrix(topology), whole[0])
    assert np.array_equal(distance_distribution(topology), whole[1])
    assert mean_distance(topology) == whole[2]
    # Rows of blocks of different depth are padded: the far end of a path sees further than its middle.
    assert distance_distribution(path(200)).shape == (200, 200)


@pytest.mark.parametrize(("n", "offsets"), [(90, (9, 10)), (50, (1, 7, 20))])
def test_one_source_says_everything_on_a_vertex_transitive_graph(n, offsets):
    topology = circulant(n, *offsets)
    for function in (diameter, mean_distance, all_to_all_bound):
        assert function(topology, sources=[0]) == function(topology)


def test_a_large_circulant_from_one_source():
    # Theorem 22 at N = 10^5: m = ceil((sqrt(2n - 1) - 1) / 2) = 224.
    assert diameter(circulant(100_000, 224, 225), sources=[17]) == 224


def test_self_loops_carry_nothing_in_the_bound():
    topology = de_bruijn(2, 2)
    assert topology.n_links == 8
    assert all_to_all_bound(topology) == Fraction(6, int(distance_matrix(topology).sum()))


def pair(*links):
    builder = TopologyBuilder("pair")
    for node in "abc":
        builder.compute(node)
    for tail, head in links:
        builder.link(tail, head, 1)
    return builder.build()


@pytest.mark.parametrize(
    ("topology", "source", "target"),
    [
        (pair(("a", "b"), ("b", "c")), "b", "a"),
        (pair(("a", "b"), ("b", "a")), "c", "a"),
        (pair(), "b", "a"),
    ],
)
@pytest.mark.parametrize(
    "function", [distance_matrix, distance_distribution, diameter, mean_distance, all_to_all_bound]
)
def test_disconnected_fabrics_name_the_pair(function, topology, source, target):
    with pytest.raises(InfeasibleError, match=f"pair: {target} cannot be reached from {source};") as caught:
        function(topology)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("sources", [[5], [-1], [0, 7]])
def test_unknown_sources(sources):
    with pytest.raises(TopologyError, match="is not a rank; expected 0 to 4"):
        distance_matrix(ring(5), sources=sources)


def test_no_sources_and_no_pairs():
    with pytest.raises(TopologyError, match="expected at least one source"):
        diameter(ring(5), sources=[])
    assert distance_matrix(path(1)).tolist() == [[0]]
    for function in (mean_distance, all_to_all_bound):
        with pytest.raises(TopologyError, match="at least two compute nodes, found 1"):
            function(path(1))
