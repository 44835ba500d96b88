"""Neighbours: searched graphs are what they say, in every direction of change; the table's rows hold."""

from __future__ import annotations

import random
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from treadle.finder.measure import measure_graph
from treadle.finder.search import FabricCandidate, Finder
from treadle.finder.searches.cayley_value import load_scale
from treadle.finder.searches.link_swaps import exchanges, expression_of, random_start, swap_links
from treadle.finder.searches.neighbour_search import search_neighbours
from treadle.finder.searches.neighbour_table import (
    check_neighbour,
)
from treadle.finder.tables import shipped_tables
from treadle.topologies import is_regular, parse
from treadle.topologies.properties import is_symmetric
from treadle.topologies.topology import Topology

BASE = "directed_circulant(12, 1, 5)"
TWO_WAY = "torus(4, 4)"


def _steps(graph: Topology) -> int:
    """Longest distance, by networkx."""
    network = nx.DiGraph(list(zip(graph.tails.tolist(), graph.heads.tolist(), strict=True)))
    return max(max(lengths.values()) for _, lengths in nx.all_pairs_shortest_path_length(network))


@pytest.mark.parametrize("two_way", [False, True])
@pytest.mark.parametrize("more", [-3, -2, -1, 0, 1, 2, 3])
def test_what_is_found_is_what_its_expression_makes(more: int, two_way: bool) -> None:
    """Cost and steps of the core against breadth-first broadcast on the parsed graph, and networkx."""
    base = parse(TWO_WAY if two_way else BASE)
    rng = random.Random(more)
    start = next(s for _ in range(50) if (s := random_start(base, more, rng, two_way=two_way)) is not None)
    target = 6
    found = swap_links(start, target=target, trials=300, seed=5, bar=2**60)
    assert found.cost >= 0
    graph = parse(expression_of(start, found.heads))
    assert graph.n_nodes == base.n_nodes + more
    assert is_regular(graph)
    assert (graph.tails != graph.heads).all()
    assert not two_way or is_symmetric(graph)
    steps, gather, reduce = measure_graph(graph)
    scale = Fraction(load_scale(start.degree) * start.nodes, start.degree)
    assert (gather + reduce) * scale == found.cost
    assert steps == _steps(graph) <= target


def test_few_links_change_and_none_is_of_use_at_the_bar() -> None:
    base = parse("random_regular_digraph(30, 2, seed=1)")
    start = random_start(base, 0, random.Random(1))
    assert start is not None
    found = swap_links(start, target=12, trials=2000, seed=1, bar=2**60, most_changed=4)
    assert 0 < np.count_nonzero(found.heads != base.heads) <= 4
    assert swap_links(start, target=12, trials=2000, seed=1, bar=found.cost, most_changed=4).cost == -1
    assert swap_links(start, target=1, trials=50, seed=1, bar=2**60).cost == -1


def test_exchanges_lead_to_the_heads_wanted() -> None:
    rng = random.Random(3)
    for _ in range(50):
        heads = [rng.randrange(5) for _ in range(12)]
        wanted = rng.sample(heads, 12)
        now = list(heads)
        pairs = exchanges(heads, wanted)
        for one, other in zip(pairs[::2], pairs[1::2], strict=True):
            now[one], now[other] = now[other], now[one]
        assert now == wanted


def test_a_prime_gets_what_no_known_graph_has() -> None:
    """N = 31 with d = 2; the same seed gives the same graphs."""
    finder = Finder(shipped_tables(neighbours=False).bases)
    known = finder.frontier(31, 2)
    found, again = (search_neighbours(31, 2, finder, known, trials=2000, seed=1) for _ in range(2))
    assert found == again
    assert found.entries
    for entry in found.entries:
        check_neighbour(entry)
        assert not any(one.steps <= entry.steps and one.t_b_both <= entry.t_b_both for one in known)


class Asked:
    """A finder that knows nothing, and keeps which sizes it was asked for."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def frontier(self, nodes: int, degree: int) -> list[FabricCandidate]:
        self.sizes.append(nodes)
        return []


@pytest.mark.parametrize(
    ("nodes", "degree", "two_way", "sizes"),
    [
        (2000, 8, False, [2000, 2001, 1999, 2002, 1998, 2003, 1997]),
        (2001, 8, False, []), (50, 9, False, []), (50, 1, False, []),
        (50, 2, True, [50, 51, 49, 52, 48, 53, 47]),
        (50, 3, True, [50]),  # an odd degree has no other number of nodes
        (51, 3, True, []), (51, 3, False, [51, 52, 50, 53, 49, 54, 48]),
        (6, 4, False, [6, 7, 8, 9]),  # and five are all joined already
    ],
)  # fmt: skip
def test_sizes_from_which_a_search_starts(nodes: int, degree: int, two_way: bool, sizes: list[int]) -> None:
    """Three nodes more or fewer, the nearest first."""
    finder = Asked()
    found = search_neighbours(nodes, degree, finder, (), trials=9, two_way=two_way)  # type: ignore[arg-type]
    assert (found.entries, found.tried, finder.sizes) == ((), 0, sizes)
