"""Expanded graphs: their order of nodes and arcs, names, sizes, and networkx as a second opinion."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.errors import TopologyError
from treadle.topologies import dgx_a100, parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.catalogue.graphs import complete, hypercube, ring, torus
from treadle.topologies.catalogue.kautz import de_bruijn, kautz
from treadle.topologies.distances import diameter
from treadle.topologies.limits import MAX_NODES
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.expansions import (
    cartesian_power,
    cartesian_product,
    degree_expansion,
    line_graph,
)

LOOPS_AND_PARALLELS = from_arcs("knot", [0, 0, 1, 1, 1], [1, 1, 0, 0, 1], n=2)


@st.composite
def multigraphs(draw: st.DrawFn, *, loops: bool = True) -> Topology:
    """Small digraphs with parallel arcs, in any order of arcs."""
    n = draw(st.integers(2, 5))
    node = st.integers(0, n - 1)
    arcs = draw(
        st.lists(st.tuples(node, node).filter(lambda arc: loops or arc[0] != arc[1]), min_size=1, max_size=10)
    )
    tails, heads = zip(*arcs, strict=True)
    return from_arcs("random", tails, heads, n=n)


def _arcs(topology: Topology) -> list[tuple[int, int]]:
    return list(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))


def _networkx(topology: Topology) -> nx.MultiDiGraph:
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(topology.n_nodes))
    graph.add_edges_from(_arcs(topology))
    return graph


@settings(derandomize=True, max_examples=21)
@given(multigraphs())
def test_line_graph_has_an_arc_for_each_pair_of_adjacent_arcs(base: Topology) -> None:
    """Definition 12, in the documented order."""
    pairs = [
        (e, f) for e in range(base.n_links) for f in range(base.n_links) if base.heads[e] == base.tails[f]
    ]
    expanded = line_graph(base)
    assert expanded.n_nodes == base.n_links
    assert _arcs(expanded) == pairs
    assert len(set(expanded.node_names)) == base.n_links


@settings(derandomize=True, max_examples=30)
@given(multigraphs())
def test_line_graph_agrees_with_networkx(base: Topology) -> None:
    ours = nx.line_graph(_networkx(base))
    assert Counter((u[:2], v[:2]) for u, v in ours.edges()) == Counter(
        (_arcs(base)[e], _arcs(base)[f]) for e, f in _arcs(line_graph(base))
    )


@settings(derandomize=True, max_examples=30)
@given(multigraphs(), st.integers(2, 3))
def test_repeated_line_graphs_are_line_graphs_of_line_graphs(base: Topology, n: int) -> None:
    if line_graph(base).n_links == 0:  # no two arcs follow each other
        return
    once = line_graph(base, n - 1)
    if once.n_links:
        assert line_graph(base, n) == line_graph(once)


@settings(derandomize=True, max_examples=21)
@given(multigraphs(loops=False), st.integers(1, 3))
def test_degree_expansion_joins_all_copies(base: Topology, n: int) -> None:
    """Definition 13, with arc (i, j, e) at number (i * n + j) * m + e."""
    expected = [
        (i * base.n_nodes + tail, j * base.n_nodes + head)
        for i in range(n)
        for j in range(n)
        for tail, head in _arcs(base)
    ]
    expanded = degree_expansion(base, n)
    assert _arcs(expanded) == expected
    assert expanded.node_names == tuple(f"{name}.{i}" for i in range(n) for name in base.node_names)


@settings(derandomize=True, max_examples=21)
@given(multigraphs(), multigraphs(), multigraphs())
def test_product_moves_along_one_factor_at_a_time(one: Topology, two: Topology, three: Topology) -> None:
    """Definition 3, with arcs ordered by factor, then rest, then the factor's arc."""
    factors = (one, two, three)
    sizes = tuple(factor.n_nodes for factor in factors)
    expected = []
    for position, factor in enumerate(factors):
        rest_sizes = sizes[:position] + sizes[position + 1 :]
        for rest in np.ndindex(*rest_sizes):
            for ends in _arcs(factor):
                nodes = ((*rest[:position], end, *rest[position:]) for end in ends)
                expected.append(tuple(int(np.ravel_multi_index(node, sizes)) for node in nodes))
    assert _arcs(cartesian_product(*factors)) == expected


def test_product_agrees_with_networkx() -> None:
    one, two = kautz(2, 1), ring(3)
    ours = Counter(_arcs(cartesian_product(one, two)))
    theirs = nx.cartesian_product(nx.DiGraph(_networkx(one)), nx.DiGraph(_networkx(two)))
    assert ours == Counter((a * 3 + b, c * 3 + d) for (a, b), (c, d) in theirs.edges())


def test_known_graphs_are_expansions() -> None:
    """Kautz graphs are line graphs, Hamming graphs and hypercubes powers, tori products of rings."""
    assert _arcs(line_graph(kautz(3, 1))) == _arcs(kautz(3, 2))
    assert _arcs(line_graph(de_bruijn(2, 3))) == _arcs(de_bruijn(2, 4))
    assert sorted(_arcs(cartesian_power(complete(2), 4))) == sorted(_arcs(hypercube(4)))
    assert sorted(_arcs(cartesian_product(ring(3), ring(4), complete(2)))) == sorted(_arcs(torus(3, 4, 2)))
    assert cartesian_power(ring(3), 2) == cartesian_product(ring(3), ring(3))


def test_figure_3_2_line_graph_of_k22() -> None:
    """Every node of L(K2,2) is an arc of K2,2; ca leads to ac and ad."""
    base = replace(parse("complete_bipartite(2, 2)"), node_names=("a", "b", "c", "d"))
    expanded = line_graph(base)
    links = {expanded.link_name(link) for link in range(expanded.n_links)}
    assert len(links) == 16
    assert {link for link in links if link.startswith("c>a->")} == {"c>a->a>c", "c>a->a>d"}


def test_nodes_are_named_after_walks() -> None:
    assert line_graph(ring(3)).node_names == ("n0>n1", "n1>n0", "n1>n2", "n2>n1", "n2>n0", "n0>n2")
    assert line_graph(complete(3), 3).node_names[0] == "n0>n1>n0>n1"
    assert line_graph(LOOPS_AND_PARALLELS).node_names == ("n0>n1", "n0>n1#2", "n1>n0", "n1>n0#2", "n1>n1")
    assert cartesian_product(ring(3), complete(2)).node_names[3] == "n1,n1"


@pytest.mark.parametrize("names", [("a", "a>a"), ("a>a", "a"), ("a#2", "a"), ("b,c", "b")])
def test_names_stay_unique_whatever_the_base_calls_its_nodes(names: tuple[str, str]) -> None:
    base = replace(LOOPS_AND_PARALLELS, node_names=names)
    for expanded in (line_graph(base), line_graph(base, 2), cartesian_product(base, base)):
        assert len(set(expanded.node_names)) == expanded.n_nodes


def test_links_keep_their_bandwidth_and_latency() -> None:
    """Arc (e, f) of a line graph has link e's; copies and products have the original's."""
    base = replace(
        LOOPS_AND_PARALLELS,
        bandwidths=np.arange(1, 6, dtype=np.int64),
        latencies_ns=np.arange(5, dtype=np.int64),
    )
    expanded = line_graph(base)
    assert expanded.bandwidths.tolist() == (expanded.tails + 1).tolist()
    assert expanded.latencies_ns.tolist() == expanded.tails.tolist()
    assert cartesian_power(base, 2).bandwidths.tolist() == [1, 2, 3, 4, 5] * 4
    plain = replace(ring(3), bandwidths=np.arange(1, 7, dtype=np.int64))
    assert degree_expansion(plain, 2).bandwidths.tolist() == [1, 2, 3, 4, 5, 6] * 4


@pytest.mark.parametrize(
    "text",
    [
        "line_graph(complete_bipartite(4, 4), 2)",
        "line_graph(complete(3))",
        "degree_expansion(ring(5), 2)",
        "cartesian_power(complete(3), 2)",
        "cartesian_product(ring(4), complete(3), ring(3))",
        "line_graph(cartesian_power(degree_expansion(complete(2), 2), 2))",
    ],
)
def test_names_are_expressions_that_rebuild_the_graph(text: str) -> None:
    topology = parse(text)
    assert topology.name == text
    assert parse(topology.name) == topology


@pytest.mark.parametrize("base", [complete(4), kautz(2, 1), hypercube(3)])
def test_diameters(base: Topology) -> None:
    assert diameter(line_graph(base, 2)) == diameter(base) + 2
    assert diameter(cartesian_product(base, ring(5))) == diameter(base) + 2


def test_large_graphs_are_built_in_one_go() -> None:
    assert line_graph(complete(5), 7).n_nodes == 5 * 4**7
    assert cartesian_power(ring(10), 5).n_links == 10**6


def test_refusals_name_the_reason() -> None:
    with pytest.raises(TopologyError, match=r"degree_expansion: knot has the self-loop n1->n1"):
        degree_expansion(LOOPS_AND_PARALLELS, 2)
    with pytest.raises(TopologyError, match=r"line_graph: this would be \d+ links"):
        line_graph(complete(5), 20)
    with pytest.raises(TopologyError, match=r"cartesian_power: this would be about 2\*\*74 nodes"):
        cartesian_power(complete(5), 32)
    with pytest.raises(TopologyError, match=r"degree_expansion: this would be"):
        degree_expansion(complete(3), MAX_NODES)
    with pytest.raises(TopologyError, match=r"number of factors must be at least 1"):
        cartesian_product()
    for bad in (0, -1, True, 1.5):
        with pytest.raises(TopologyError, match=r"line_graph: n must be"):
            line_graph(complete(3), bad)
    for expand in (line_graph, cartesian_product):
        with pytest.raises(TopologyError, match=r"has the switch .*; expected compute nodes only"):
            expand(dgx_a100(1))
    capped = replace(complete(3), injection_bytes_per_s=np.array([5, 5, 5]))
    with pytest.raises(TopologyError, match=r"line_graph: complete\(3\) has injection caps"):
        line_graph(capped)


def test_copies_lie_side_by_side() -> None:
    graph = parse("kautz(2, 1)")
    copies = parse("disjoint_copies(kautz(2, 1), 3)")
    assert (copies.n_nodes, copies.n_links) == (3 * graph.n_nodes, 3 * graph.n_links)
    for copy in range(3):
        links = slice(copy * graph.n_links, (copy + 1) * graph.n_links)
        assert np.array_equal(copies.tails[links], graph.tails + copy * graph.n_nodes)
        assert np.array_equal(copies.heads[links], graph.heads + copy * graph.n_nodes)


def test_axes_in_another_order_number_the_same_nodes() -> None:
    """Node (x, y, z) of sizes 2, 3, 4 becomes (z, x, y)."""
    graph = parse("torus(2, 3, 4)")
    turned = parse('with_axes_ordered(torus(2, 3, 4), "2x3x4", "2,0,1")')
    number = {(x * 3 + y) * 4 + z: (z * 2 + x) * 3 + y for x in range(2) for y in range(3) for z in range(4)}
    assert turned.tails.tolist() == [number[tail] for tail in graph.tails.tolist()]
    assert turned.heads.tolist() == [number[head] for head in graph.heads.tolist()]
    assert all(turned.node_names[new] == graph.node_names[old] for old, new in number.items())


@pytest.mark.parametrize("words", ['"2x3", "0,1"', '"2x12", "0,0"', '"2x12", "1"', '"axb", "0,1"'])
def test_axes_have_to_fit(words: str) -> None:
    with pytest.raises(TopologyError, match="with_axes_ordered"):
        parse(f"with_axes_ordered(torus(2, 3, 4), {words})")


def test_nodes_in_any_order_keep_their_links_and_names() -> None:
    graph = parse("torus(2, 3)")
    order = (4, 0, 5, 2, 1, 3)
    placed = parse(f'with_nodes_ordered(torus(2, 3), "{",".join(map(str, order))}")')
    assert [order[tail] for tail in placed.tails.tolist()] == graph.tails.tolist()
    assert [order[head] for head in placed.heads.tolist()] == graph.heads.tolist()
    assert placed.node_names == tuple(graph.node_names[node] for node in order)


@pytest.mark.parametrize("order", ["0,1,2,3,4", "0,1,2,3,4,4", "0,1,2,3,4,6", "0,1,2,3,4,-5", ""])
def test_each_node_is_named_once(order: str) -> None:
    with pytest.raises(TopologyError, match="with_nodes_ordered"):
        parse(f'with_nodes_ordered(torus(2, 3), "{order}")')
