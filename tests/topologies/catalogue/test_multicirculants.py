"""Multicirculants: a turn of every orbit is an automorphism; Petersen's graph; what is no such graph."""

from __future__ import annotations

import pytest

from treadle.errors import TopologyError
from treadle.topologies import directed_multicirculant, is_regular, is_symmetric, multicirculant
from treadle.topologies.topology import Topology

GRAPHS = [
    (multicirculant("2*5", 3, 1, 5, 7), [5, 5]),
    (multicirculant("1+4", 4, 1, 2, 3), [1, 4]),
    (directed_multicirculant("1+3+6", 3, 1, 0, 4, 1, 5, 7), [1, 3, 6]),
    (multicirculant("2*4", 3, 2, 4, 5, 6), [4, 4]),
]


@pytest.mark.parametrize(("graph", "sizes"), GRAPHS, ids=lambda one: getattr(one, "name", ""))
def test_a_turn_is_an_automorphism(graph: Topology, sizes: list[int]) -> None:
    turned: list[int] = []
    for size in sizes:
        first = len(turned)
        turned += [first + (place + 1) % size for place in range(size)]
    arcs = sorted(zip(graph.tails.tolist(), graph.heads.tolist(), strict=True))
    assert sorted((turned[tail], turned[head]) for tail, head in arcs) == arcs
    assert is_regular(graph)
    assert is_symmetric(graph) or graph.name.startswith("directed")


def test_petersen() -> None:
    graph = multicirculant("2*5", 3, 1, 5, 7)
    links = {(tail, head) for tail, head in zip(graph.tails.tolist(), graph.heads.tolist(), strict=True)}
    outer = {(node, (node + step) % 5) for node in range(5) for step in (1, 4)}
    inner = {(5 + node, 5 + (node + step) % 5) for node in range(5) for step in (2, 3)}
    spokes = {pair for node in range(5) for pair in ((node, node + 5), (node + 5, node))}
    assert links == outer | inner | spokes


@pytest.mark.parametrize(
    ("orbits", "heads", "words"),
    [
        ("2*5", [1, 5, 7, 8], "too many"),
        ("2*5", [1, 5], "too few"),
        ("2*5", [1, 2, 7], "more than 3 links"),
        ("2*5", [1, 5, 10], "each head must be at most 9"),
        ("2+3", [1], "divisors of the next size"),
        ("5x2", [1], "expected sizes such as"),
        ("", [1], "expected sizes such as"),
        ("9999999*9999999", [1], "expected sizes such as"),
    ],
)
def test_what_is_none_is_an_error_of_one_line(orbits: str, heads: list[int], words: str) -> None:
    with pytest.raises(TopologyError, match=words):
        multicirculant(orbits, 3, *heads)


def test_as_many_links_have_to_lead_into_a_node() -> None:
    with pytest.raises(TopologyError, match="has not 1 links into it"):
        directed_multicirculant("2*3", 1, 1, 0)
