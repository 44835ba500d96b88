"""Expanded graphs: their order of nodes and arcs, names, sizes, and networkx as a second opinion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from treadle.errors import TopologyError
from treadle.topologies import dgx_a100, parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.catalogue.graphs import complete, hypercube, ring
from treadle.topologies.catalogue.kautz import kautz
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


@pytest.mark.parametrize("words", ['"2x3", "0,1"', '"2x12", "0,0"', '"2x12", "1"', '"axb", "0,1"'])
def test_axes_have_to_fit(words: str) -> None:
    with pytest.raises(TopologyError, match="with_axes_ordered"):
        parse(f"with_axes_ordered(torus(2, 3, 4), {words})")


@pytest.mark.parametrize("order", ["0,1,2,3,4", "0,1,2,3,4,4", "0,1,2,3,4,6", "0,1,2,3,4,-5", ""])
def test_each_node_is_named_once(order: str) -> None:
    with pytest.raises(TopologyError, match="with_nodes_ordered"):
        parse(f'with_nodes_ordered(torus(2, 3), "{order}")')
