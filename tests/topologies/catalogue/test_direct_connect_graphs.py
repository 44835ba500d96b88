"""The algebraic families of direct-connect graphs against table A.3 and the theorems of the dissertation."""

import pytest

from reference.multigraphs import networkx_graph
from treadle.errors import TopologyError
from treadle.topologies import (
    circulant,
    de_bruijn,
    diameter,
    hamming,
    hypercube,
    kautz,
    modified_de_bruijn,
    parse,
    shifted_ring,
    twisted_hypercube,
    twisted_torus,
)


def test_modified_de_bruijn_keeps_all_other_arcs():
    plain, modified = (networkx_graph(f(2, 3)) for f in (de_bruijn, modified_de_bruijn))
    assert set(plain.edges()) - set(modified.edges()) == {(0, 0), (7, 7), (5, 2)}
    # Figure A.9: a cycle through the freed ports, 0 2 5 7, takes their place; its arc 2 5 was there before.
    assert set(modified.edges()) - set(plain.edges()) == {(0, 2), (5, 7), (7, 0)}


@pytest.mark.parametrize("n", [3, 4, 5, 7])
def test_twisted_hypercube_exchanges_one_pair_of_edges(n):
    plain, twisted = networkx_graph(hypercube(n)), networkx_graph(twisted_hypercube(n))
    assert set(plain.edges()) - set(twisted.edges()) == {(0, 1), (1, 0), (2, 3), (3, 2)}
    assert set(twisted.edges()) - set(plain.edges()) == {(0, 3), (3, 0), (1, 2), (2, 1)}
    assert diameter(twisted_hypercube(n)) == diameter(hypercube(n)) - 1


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
