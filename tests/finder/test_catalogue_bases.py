"""Catalogue graphs by size and degree: their figures, and that no frontier of their size is worse."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tools.finder.catalogue_figures import MAX_TABLED, measured_graphs

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


def test_all_twisted_tori_of_the_dissertation_are_there() -> None:
    """N <= 10^4 (section 3.6): 97 of them, those with k = 2 too."""
    twisted = [one for one in CLOSED if one.family == "twisted torus"]
    assert len(twisted) == 97
    assert {one.nodes for one in twisted if one.nodes <= 32} == {8, 16, 18, 32}


def test_sizes_of_the_larger_ones() -> None:
    for graph in CLOSED:
        if 70 < graph.nodes <= 3000:
            topology = parse(graph.expression)
            assert (topology.n_nodes, topology.n_links) == (graph.nodes, graph.nodes * graph.degree)


def test_tabled_figures_are_those_of_the_graphs() -> None:
    """All graphs are there; a sample and all small ones are computed anew."""
    assert all(one.nodes <= MAX_TABLED for one in MEASURED)
    chosen = {int(i) for i in np.random.default_rng(2).choice(len(MEASURED), 12, replace=False)}
    for place, graph in enumerate(MEASURED):
        found = _candidate(graph)
        if graph.nodes <= 60 or (place in chosen and graph.nodes < 700):
            topology = parse(graph.expression)
            assert (found.steps, found.gather.t_b, found.reduce.t_b) == measure_graph(topology)
            assert (topology.n_nodes, topology.n_links) == (graph.nodes, graph.nodes * graph.degree)


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


def test_forty_are_forty() -> None:
    assert len(set(FORTY)) == 40


@pytest.mark.parametrize(
    ("n", "rows"), [(97, {4: "1.07", 5: "1.031", 6: "0.990"}), (1009, {6: "1.042", 13: "0.9991"})]
)
def test_neighbours_fill_sizes_that_have_no_good_graph(n: int, rows: dict[int, str]) -> None:
    """Degree 4."""
    frontier = Finder(shipped_tables().bases).frontier(n, 4)
    for steps, t_b in rows.items():
        assert any(one.steps <= steps and one.t_b_both / 2 <= Fraction(t_b) for one in frontier), steps
