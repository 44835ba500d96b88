"""Catalogue graphs by size and degree: their figures, and that no frontier of their size is worse."""

from __future__ import annotations

from fractions import Fraction

import pytest
from tools.finder.catalogue_figures import measured_graphs

from treadle.finder.catalogue_bases import (
    CatalogueGraph,
    catalogue_bases,
    formula_graphs,
)
from treadle.finder.construction import expression
from treadle.finder.measure import measure_graph
from treadle.finder.search import FabricCandidate, Finder
from treadle.finder.tables import shipped_tables
from treadle.topologies import parse

CLOSED = list(formula_graphs())
MEASURED = list(measured_graphs())


def _candidate(graph: CatalogueGraph) -> FabricCandidate:
    found = {expression(one.construction): one for one in catalogue_bases(graph.nodes, graph.degree)}
    return found[graph.expression]


@pytest.mark.parametrize("graph", [one for one in CLOSED if one.nodes <= 70], ids=lambda one: one.expression)
def test_closed_forms_are_those_of_the_graphs(graph: CatalogueGraph) -> None:
    topology = parse(graph.expression)
    assert (topology.n_nodes, topology.n_links) == (graph.nodes, graph.nodes * graph.degree)
    found = _candidate(graph)
    assert (found.steps, found.gather.t_b, found.reduce.t_b) == measure_graph(topology)
    assert found.gather.t_b == Fraction(graph.nodes - 1, graph.nodes)


FORTY = (
    *("slimfly(3)", "slimfly(4)", "slimfly(5)", "slimfly(7)", "slimfly(8)", "slimfly(11)", "slimfly(13)"),
    *("projective_plane(2)", "projective_plane(3)", "projective_plane(4)", "projective_plane(7)"),
    *("affine_plane(3)", "affine_plane(5)", "affine_plane(8)", "generalized_quadrangle(3)"),
    *("generalized_quadrangle(4)", "generalized_quadrangle(5)", "generalized_hexagon(2)"),
    *("generalized_hexagon(3)", "odd_graph(3)", "odd_graph(4)", "odd_graph(5)", "odd_graph(6)"),
    *("doubled_odd_graph(3)", "doubled_odd_graph(4)", "paley(13)", "paley(17)", "paley(25)", "paley(37)"),
    *("hamming(2, 5)", "hamming(3, 4)", "hamming(6, 2)", "crown(9)", "dragonfly(4, 2)", "dragonfly(3, 7)"),
    *(
        "twisted_torus(4, 8)",
        "twisted_torus(3, 3, 6)",
        "twisted_hypercube(5)",
        "kautz(7, 2)",
        "de_bruijn(7, 2)",
    ),
)


@pytest.mark.parametrize("name", FORTY)
def test_no_catalogue_graph_beats_the_frontier_of_its_size(name: str) -> None:
    graph = next(one for one in (*CLOSED, *MEASURED) if one.expression == name)
    figures = _candidate(graph)
    for two_way in {False, figures.gather.is_bidirectional}:
        frontier = Finder(shipped_tables().bases, bidirectional=two_way).frontier(graph.nodes, graph.degree)
        assert any(one.steps <= figures.steps and one.t_b_both <= figures.t_b_both for one in frontier), (
            f"{name}, two-way {two_way}"
        )
