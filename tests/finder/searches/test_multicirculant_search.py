"""Multicirculants: the core's figures are those of the graphs that the expressions make; seeds decide."""

from __future__ import annotations

import random
from zlib import crc32

import pytest

from treadle.finder.measure import measure_graph
from treadle.finder.searches.multicirculant_search import (
    expression_of,
    layouts,
    random_links,
    search_multicirculants,
)
from treadle.finder.searches.neighbour_table import candidate_of_neighbour, check_neighbour
from treadle.topologies import is_regular, is_symmetric, parse

SIZES = [(10, 3, True), (23, 4, True), (26, 3, True), (23, 3, False), (30, 2, False), (41, 5, False)]
FOUND = (127899979, 701010211, 956214903, 2958681441, 3687780116, 3797458255)
"""Hashes of what seed 0 finds: any step of the search done otherwise finds something else."""


@pytest.mark.parametrize(("nodes", "degree", "bidirectional"), SIZES)
def test_layouts_make_regular_graphs(nodes: int, degree: int, bidirectional: bool) -> None:
    rng = random.Random(nodes)
    found = layouts(nodes, degree, bidirectional=bidirectional)
    assert found
    for layout in found:
        assert sum(layout.sizes) == nodes
        links = random_links(layout, rng)
        if links is not None:
            graph = parse(expression_of(layout, links))
            assert (graph.n_nodes, graph.n_links, is_regular(graph)) == (nodes, nodes * degree, True)
            assert is_symmetric(graph) or not bidirectional
            assert not (graph.tails == graph.heads).any()


@pytest.mark.parametrize(("nodes", "degree", "bidirectional"), SIZES)
def test_what_is_found_is_what_it_is_said_to_be(nodes: int, degree: int, bidirectional: bool) -> None:
    """Breadth-first broadcast on the whole graph gives the figures that one node of each orbit gave."""
    one, same, other = (
        search_multicirculants(nodes, degree, (), work=10**7, seed=seed, bidirectional=bidirectional)
        for seed in (0, 0, 1)
    )
    assert one == same != other
    assert crc32(repr(one).encode()) in FOUND
    assert one.entries
    for entry in one.entries:
        check_neighbour(entry)
        graph = parse(entry.expression)
        assert graph.name == entry.expression
        assert (entry.steps, entry.gather, entry.reduce) == measure_graph(graph)
        assert not bidirectional or entry.gather == entry.reduce


def test_the_petersen_graph_is_found() -> None:
    """It meets both lower bounds: nothing better exists, and nothing is looked for beside it."""
    found = search_multicirculants(10, 3, (), work=10**8, bidirectional=True)
    (entry,) = found.entries
    assert (entry.steps, entry.gather * 10) == (2, 9)
    known = [candidate_of_neighbour(entry, "multicirculant")]
    assert search_multicirculants(10, 3, known, work=10**8, bidirectional=True).tried == 0
