"""Nodes between links and exchanged heads: counted link by link."""

from __future__ import annotations

import pytest

from treadle.errors import TopologyError
from treadle.topologies import parse
from treadle.topologies.properties import is_regular


def _arcs(text: str) -> list[tuple[int, int]]:
    topology = parse(text)
    return list(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))


def test_two_nodes_come_between_links() -> None:
    """The second node may be put between links that the first one has made."""
    before = _arcs("directed_circulant(5, 1, 2)")
    after = _arcs("with_inserted_nodes(directed_circulant(5, 1, 2), 0, 3, 10, 7)")
    (a, b), (c, d), (g, h) = before[0], before[3], before[7]
    expected = list(before)
    expected[0], expected[3], expected[7] = (a, 5), (c, 5), (g, 6)
    assert after == [*expected, (5, 6), (5, d), (6, b), (6, h)]
    graph = parse("with_inserted_nodes(directed_circulant(5, 1, 2), 0, 3, 10, 7)")
    assert is_regular(graph)
    assert graph.node_names[5:] == ("x0", "x1")


def test_pairs_of_links_exchange_their_heads() -> None:
    before = _arcs("directed_circulant(7, 1, 2)")
    after = _arcs("with_exchanged_heads(directed_circulant(7, 1, 2), 0, 5, 5, 9)")
    expected = list(before)
    for one, other in ((0, 5), (5, 9)):
        (a, b), (c, d) = expected[one], expected[other]
        expected[one], expected[other] = (a, d), (c, b)
    assert after == expected


@pytest.mark.parametrize(
    "text",
    [
        "with_inserted_nodes(torus(3, 3), 1, 2, 3)",
        "with_inserted_nodes(torus(3, 3))",
        "with_inserted_nodes(torus(3, 3), 1, 2, 3, 36)",
        "with_inserted_nodes(bi_ring(2, 4), 0, 8)",
        "with_inserted_nodes(torus(3, 3), 1, 1, 36, 2)",
        "with_inserted_nodes(star(4), 1)",
        "with_exchanged_heads(torus(3, 3), 1)",
        "with_exchanged_heads(torus(3, 3), 1, 99)",
        "with_exchanged_heads(dgx_a100(1), 1, 2)",
    ],
)
def test_what_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(TopologyError, match="with_"):
        parse(text)
