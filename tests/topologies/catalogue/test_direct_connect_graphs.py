"""The algebraic families of direct-connect graphs against table A.3 and the theorems of the dissertation."""

from math import gcd

import networkx as nx
import numpy as np
import pytest

from reference.multigraphs import are_isomorphic, networkx_graph
from treadle.errors import TopologyError
from treadle.topologies import (
    all_to_all_bound,
    bi_ring,
    catalogue,
    circulant,
    complete,
    complete_bipartite,
    de_bruijn,
    diameter,
    diamond,
    directed_circulant,
    distance_distribution,
    double_binary_tree,
    generalized_kautz,
    hamming,
    hypercube,
    is_moore_optimal,
    is_regular,
    is_symmetric,
    kautz,
    modified_de_bruijn,
    parse,
    ring,
    shifted_ring,
    torus,
    twisted_hypercube,
    twisted_torus,
    uni_ring,
)
from treadle.topologies.catalogue.rings import default_stride, two_trees


def is_reverse_symmetric(topology):
    graph = networkx_graph(topology)
    return are_isomorphic(graph, graph.reverse())


def degrees(topology):
    counts = [np.bincount(ends, minlength=topology.n_nodes) for ends in (topology.tails, topology.heads)]
    return {*counts[0].tolist(), *counts[1].tolist()}


# Expression, nodes, degree, diameter: columns Degree and Size of table A.3, T_L where it is Moore-optimal.
FAMILIES = [
    ("complete(2)", 2, 1, 1),
    ("complete(6)", 6, 5, 1),
    ("complete_bipartite(1, 1)", 2, 1, 1),
    ("complete_bipartite(2, 2)", 4, 2, 2),
    ("complete_bipartite(5, 5)", 10, 5, 2),
    ("hamming(1, 5)", 5, 4, 1),
    ("hamming(2, 3)", 9, 4, 2),
    ("hamming(3, 3)", 27, 6, 3),
    ("hamming(4, 2)", 16, 4, 4),
    ("kautz(1, 3)", 2, 1, 1),
    ("kautz(2, 0)", 3, 2, 1),
    ("kautz(2, 3)", 24, 2, 4),
    ("kautz(3, 2)", 36, 3, 3),
    ("kautz(4, 2)", 80, 4, 3),
    ("generalized_kautz(2, 2)", 2, 2, 1),
    ("generalized_kautz(3, 4)", 4, 3, 1),
    ("generalized_kautz(4, 100)", 100, 4, 4),
    ("de_bruijn(2, 1)", 2, 2, 1),
    ("de_bruijn(2, 5)", 32, 2, 5),
    ("de_bruijn(3, 3)", 27, 3, 3),
    ("de_bruijn(4, 4)", 256, 4, 4),
    ("modified_de_bruijn(2, 3)", 8, 2, 3),
    ("modified_de_bruijn(2, 4)", 16, 2, 4),
    ("modified_de_bruijn(3, 2)", 9, 3, 3),
    ("modified_de_bruijn(4, 2)", 16, 4, 3),
    ("diamond()", 8, 2, 3),
    ("circulant(16, 3, 4)", 16, 4, 3),
    ("circulant(8, 1, 4)", 8, 4, 2),
    ("circulant(5, 1)", 5, 2, 2),
    ("circulant(5, 1, 1)", 5, 4, 2),
    ("directed_circulant(8, 1, 3)", 8, 2, 3),
    ("directed_circulant(8, 1, 7, 4)", 8, 3, 2),
    ("uni_ring(1, 4)", 4, 1, 3),
    ("uni_ring(3, 5)", 5, 3, 4),
    ("bi_ring(2, 3)", 3, 2, 1),
    ("bi_ring(4, 9)", 9, 4, 4),
    ("bi_ring(6, 10)", 10, 6, 5),
    ("shifted_ring(8)", 8, 4, 2),
    ("shifted_ring(12)", 12, 4, 3),
    ("shifted_ring(12, 7)", 12, 4, 3),
    ("twisted_torus(2, 4)", 8, 4, 2),
    ("twisted_torus(8, 4)", 32, 4, 4),
    ("twisted_torus(4, 4, 8)", 128, 6, 6),
    ("twisted_torus(4, 8, 8)", 256, 6, 6),
    ("twisted_hypercube(3)", 8, 3, 2),
    ("twisted_hypercube(6)", 64, 6, 5),
]


@pytest.mark.parametrize(("text", "nodes", "degree", "steps"), FAMILIES)
def test_size_degree_and_diameter(text, nodes, degree, steps):
    topology = parse(text)
    assert topology.name == text
    assert topology.n_nodes == len(topology.compute_nodes) == nodes
    assert degrees(topology) == {degree}
    # Arcs are numbered node by node, as every docstring says (DBJMod's cycle comes last).
    if not text.startswith(("modified", "complete(")):
        assert topology.tails.tolist() == np.repeat(np.arange(nodes), degree).tolist()
    assert diameter(topology) == steps
    assert nx.diameter(nx.DiGraph(networkx_graph(topology))) == steps


def moore_optimal_by_table_a3():
    yield from (complete(m) for m in range(2, 9))
    yield from (complete_bipartite(d, d) for d in range(2, 9))
    yield from (kautz(d, n) for d in range(2, 5) for n in range(4))
    yield from (de_bruijn(d, n) for d in range(2, 5) for n in range(1, 5))
    yield from (directed_circulant(d + 2, *range(1, d + 1)) for d in range(1, 9))
    yield from (hamming(2, q) for q in range(2, 6))
    yield diamond()


@pytest.mark.parametrize("topology", list(moore_optimal_by_table_a3()), ids=lambda topology: topology.name)
def test_moore_optimal_families_of_table_a3(topology):
    (degree,) = degrees(topology)
    assert is_moore_optimal(topology.n_nodes, degree, diameter(topology))


def test_columns_self_loop_and_multi_edge_of_table_a3():
    def loops(topology):
        return int((topology.tails == topology.heads).sum())

    def has_parallel(topology):
        arcs = list(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
        return len(set(arcs)) < len(arcs)

    for text, *_ in FAMILIES:
        if text.startswith("de_bruijn"):
            assert loops(parse(text)) == parse(text).n_links // parse(text).n_nodes
        elif not text.startswith("generalized"):
            assert loops(parse(text)) == 0
    for d in (2, 3, 4, 5):
        for m in range(d + 1, 40):
            # Table A.3, generalized Kautz: self-loops where d + 1 does not divide m, no multi-edges.
            assert (loops(generalized_kautz(d, m)) > 0) == (m % (d + 1) != 0)
            assert not has_parallel(generalized_kautz(d, m))
    assert not has_parallel(bi_ring(2, 5))
    assert has_parallel(bi_ring(4, 5))
    assert not has_parallel(uni_ring(1, 5))
    assert has_parallel(uni_ring(2, 5))


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (complete(5), True),
        (complete_bipartite(3, 3), True),
        (hamming(2, 3), True),
        (kautz(2, 2), True),
        (kautz(3, 1), True),
        (generalized_kautz(4, 11), False),
        (circulant(9, 1, 3), True),
        (directed_circulant(6, 1, 2, 3, 4), True),
        (directed_circulant(8, 1, 3), True),
        (bi_ring(4, 5), True),
        (uni_ring(2, 5), True),
        (diamond(), False),
        (de_bruijn(2, 4), True),
        (modified_de_bruijn(2, 3), True),
        (modified_de_bruijn(2, 4), False),
        (modified_de_bruijn(3, 2), False),
        (modified_de_bruijn(4, 2), False),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_column_reverse_symmetric_of_table_a3(topology, expected):
    assert is_reverse_symmetric(topology) == expected


def test_graphs_that_are_one_another():
    assert are_isomorphic(networkx_graph(hamming(3, 2)), networkx_graph(hypercube(3)))
    assert are_isomorphic(networkx_graph(hamming(2, 3)), networkx_graph(torus(3, 3)))
    assert are_isomorphic(networkx_graph(complete_bipartite(2, 2)), networkx_graph(ring(4)))
    assert circulant(9, 1) == bi_ring(2, 9)
    assert shifted_ring(13, 5) == circulant(13, 1, 5)
    assert directed_circulant(7, 1, 1) == uni_ring(2, 7)
    assert de_bruijn(3, 1).n_links == 9


def test_circulants_stay_regular_at_half_the_size_and_with_repeated_offsets():
    # "an n-node 2k-regular topology" (A.6.4), also where i + n/2 and i - n/2 are the same node.
    half = circulant(6, 1, 3)
    assert degrees(half) == {4}
    assert networkx_graph(half).number_of_edges(0, 3) == 2
    assert networkx_graph(circulant(6, 1, 1)).number_of_edges(0, 1) == 2


def test_modified_de_bruijn_keeps_all_other_arcs():
    plain, modified = (networkx_graph(f(2, 3)) for f in (de_bruijn, modified_de_bruijn))
    assert set(plain.edges()) - set(modified.edges()) == {(0, 0), (7, 7), (5, 2)}
    # Figure A.9: a cycle through the freed ports, 0 2 5 7, takes their place; its arc 2 5 was there before.
    assert set(modified.edges()) - set(plain.edges()) == {(0, 2), (5, 7), (7, 0)}


@pytest.mark.parametrize("k", range(2, 9))
def test_twisted_tori_have_smaller_diameters_than_tori(k):
    for dims, steps in (((k, 2 * k), k), ((k, k, 2 * k), 3 * k // 2), ((k, 2 * k, 2 * k), 3 * k // 2)):
        twisted = twisted_torus(*dims)
        assert is_symmetric(twisted)
        assert diameter(twisted, sources=[0]) == steps < diameter(torus(*dims), sources=[0])
        if k < 5:
            # Vertex-transitive graphs look the same from everywhere.
            assert len(np.unique(distance_distribution(twisted), axis=0)) == 1


def test_twisted_torus_wraps_with_a_shift():
    topology = twisted_torus(4, 8)
    links = networkx_graph(topology)
    assert links.has_edge(3 * 8 + 1, 0 * 8 + 5)
    assert links.has_edge(0 * 8 + 5, 3 * 8 + 1)
    assert links.has_edge(7, 0)
    assert topology.node_names[3 * 8 + 1] == "n3_1"
    both = twisted_torus(2, 4, 4)
    assert networkx_graph(both).has_edge(1 * 16, 2 * 4 + 2)


@pytest.mark.parametrize("n", [3, 4, 5, 7])
def test_twisted_hypercube_exchanges_one_pair_of_edges(n):
    plain, twisted = networkx_graph(hypercube(n)), networkx_graph(twisted_hypercube(n))
    assert set(plain.edges()) - set(twisted.edges()) == {(0, 1), (1, 0), (2, 3), (3, 2)}
    assert set(twisted.edges()) - set(plain.edges()) == {(0, 3), (3, 0), (1, 2), (2, 1)}
    assert diameter(twisted_hypercube(n)) == diameter(hypercube(n)) - 1


@pytest.mark.parametrize("n", [*range(2, 40), 127, 128, 129, 1000])
def test_two_trees_share_no_interior_node(n):
    parents = two_trees(n)
    children = [np.bincount(tree[tree >= 0], minlength=n) for tree in parents]
    assert max(counts.max() for counts in children) <= 2
    assert not ((children[0] > 0) & (children[1] > 0)).any()
    for tree in parents:
        assert (tree < 0).sum() == 1
        depth, at = 0, np.arange(n)
        while (tree[at] >= 0).any():
            at = np.where(tree[at] >= 0, tree[at], at)
            depth += 1
        assert depth == n.bit_length() - 1
    topology = double_binary_tree(n)
    assert topology.n_links == 4 * (n - 1)
    assert max(degrees(topology)) <= 4
    assert is_symmetric(topology)
    assert diameter(topology) <= 2 * depth


def test_shifted_ring_has_two_hamiltonian_rings():
    for n in range(3, 60):
        stride = default_stride(n)
        assert gcd(stride, n) == 1
        topology = shifted_ring(n)
        for first in (0, 2):
            following = topology.heads[first::4]
            seen, at = set(), 0
            while at not in seen:
                seen.add(at)
                at = int(following[at])
            assert len(seen) == n
            assert topology.heads[first + 1 :: 4][following].tolist() == list(range(n))
    assert [n for n in range(3, 2000) if default_stride(n) == 1] == [3, 4, 6]


def test_default_stride_fits_the_published_all_to_all_time():
    """Caption of table 3.4: 10738 us at N = 1024 for 1 MB per node over 100 Gbit/s.

    Pricing a ring hop at 1 and a hop of stride 3 at 3 makes every distance that along the ring, whatever the
    route; so f <= (2 + 2 * 3) / (n^2 / 4). Even use of both rings attains it.
    """
    n, stride = 1024, default_stride(1024)
    rate = (2 + 2 * stride) / (n * n / 4)
    seconds = 2**20 * 8 / 100e9 * 4 / (n * rate)
    assert seconds == pytest.approx(10738e-6, rel=1e-4)
    assert rate <= all_to_all_bound(shifted_ring(n), sources=[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "circulant(8, 2, 4)",
            "node 1 cannot be reached from node 0, as n and every offset are multiples of 2",
        ),
        ("circulant(8)", "number of offsets must be at least 1, found 0"),
        ("circulant(8, 0, 1)", "each offset must be at least 1, found 0"),
        ("circulant(8, 8)", "each offset must be at most 7, found 8"),
        ("circulant(8, -1)", "each offset must be at least 1, found -1"),
        ("directed_circulant(9, 3, 6)", "multiples of 3"),
        ("directed_circulant(1, 1)", "n must be at least 2"),
        ("bi_ring(3, 5)", "d must be even"),
        ("bi_ring(2, 2)", "m must be at least 3, found 2"),
        ("uni_ring(0, 5)", "d must be at least 1"),
        ("uni_ring(1, 1)", "m must be at least 2, found 1"),
        ("shifted_ring(12, 4)", "common factor 4"),
        ("shifted_ring(2)", "n must be at least 3"),
        ("shifted_ring(12, 12)", "stride must be at most 11"),
        ("double_binary_tree(1)", "n must be at least 2"),
        ("kautz(0, 2)", "d must be at least 1"),
        ("kautz(2, -1)", "n must be at least 0"),
        ("generalized_kautz(1, 5)", "d must be at least 2"),
        ("generalized_kautz(2, 1)", "m must be at least 2"),
        ("de_bruijn(2, 0)", "n must be at least 1"),
        ("modified_de_bruijn(3, 3)", r"no cycle is known for \(3, 3\); expected one of \(2, 3\)"),
        ("hamming(0, 2)", "n must be at least 1"),
        ("hamming(2, 1)", "q must be at least 2"),
        ("complete_bipartite(0, 2)", "a must be at least 1"),
        ("twisted_torus(4)", "number of dimensions must be at least 2"),
        ("twisted_torus(4, 4)", "sizes must be k and 2k, both present, found 4 x 4"),
        ("twisted_torus(4, 6)", "found 4 x 6"),
        ("twisted_torus(1, 2)", "each dimension must be at least 2"),
        ("twisted_torus(2, 4, 4, 4)", "number of dimensions must be at most 3"),
        ("twisted_hypercube(2)", "n must be at least 3"),
        ("kautz(20, 20)", "the catalogue builds at most"),
        ("kautz(9223372036854775807, 2)", "d must be at most"),
        ("generalized_kautz(4, 3000000)", "m must be at most"),
        ("generalized_kautz(1000, 1000000)", "links, the catalogue builds at most"),
        ("de_bruijn(2, 21)", "n must be at most 20"),
        ("hamming(20, 3)", "nodes, the catalogue builds at most"),
        ("complete_bipartite(5000, 5000)", "links, the catalogue builds at most"),
        ("circulant(2000000, 1, 2, 3)", "links, the catalogue builds at most"),
        ("uni_ring(1000000, 1000000)", "the catalogue builds at most"),
        ("bi_ring(1000000, 1000000)", "the catalogue builds at most"),
        ("shifted_ring(4000000)", "n must be at most"),
        ("double_binary_tree(4000000)", "n must be at most"),
        ("twisted_torus(1000, 1000, 2000)", "the catalogue builds at most"),
        ("twisted_hypercube(20)", "links, the catalogue builds at most"),
    ],
)
def test_bad_arguments_are_one_line_errors(text, message):
    with pytest.raises(TopologyError, match=message) as caught:
        parse(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200
    assert str(caught.value).startswith(text.partition("(")[0] + ": ")


@pytest.mark.parametrize("function", [kautz, circulant, hamming, shifted_ring, twisted_torus])
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("bandwidth", 0, "bandwidth must be at least 1"),
        ("bandwidth", 2**60, "bandwidth must be at most"),
        ("latency", -1, "latency must be at least 0"),
        ("bandwidth", 1.5, "bandwidth: expected a text such as 25GB/s, or an integer number of bytes/s"),
    ],
)
def test_bad_link_arguments(function, key, value, message):
    with pytest.raises(TopologyError, match=message):
        function(4, 8 if function is twisted_torus else 3, **{key: value})


def test_links_take_bandwidth_and_latency():
    for name in ("kautz", "circulant", "hamming", "shifted_ring", "twisted_torus", "complete_bipartite"):
        topology = catalogue()[name](4, 8 if name == "twisted_torus" else 3, bandwidth=7, latency=11)
        assert set(topology.bandwidths.tolist()) == {7}
        assert set(topology.latencies_ns.tolist()) == {11}
        assert topology.name.endswith(', bandwidth="7B/s", latency="11ns")')


def test_irregular_members_are_seen_as_such():
    assert is_regular(complete_bipartite(4, 4))
    assert not is_regular(complete_bipartite(4, 3))
    assert not is_regular(double_binary_tree(8))
