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


def test_links_go_on_where_a_node_was() -> None:
    """First link in to last link out; the second node has what the first one left. Then numbers close up."""
    before = _arcs("directed_circulant(7, 1, 2)")
    for gone in ((3,), (3, 5)):
        arcs = list(before)
        for node in gone:
            into = [i for i, (_, head) in enumerate(arcs) if head == node]
            out = [i for i, (tail, _) in enumerate(arcs) if tail == node]
            for i, o in zip(into, reversed(out), strict=True):
                arcs[i] = (arcs[i][0], arcs[o][1])
            arcs = [arc for arc in arcs if arc[0] != node]
        kept = [node for node in range(7) if node not in gone]
        expected = [(kept.index(tail), kept.index(head)) for tail, head in arcs]
        text = f"with_deleted_nodes(directed_circulant(7, 1, 2), {', '.join(map(str, gone))})"
        assert _arcs(text) == expected
        graph = parse(text)
        assert is_regular(graph)
        assert graph.name == text
        assert graph.node_names == tuple(f"n{node}" for node in kept)


@pytest.mark.parametrize(
    "text",
    [
        "with_inserted_nodes(torus(3, 3), 1, 2, 3)",
        "with_inserted_nodes(torus(3, 3))",
        "with_inserted_nodes(torus(3, 3), 1, 2, 3, 36)",
        "with_inserted_nodes(bi_ring(2, 4), 0, 8)",
        "with_inserted_nodes(torus(3, 3), 1, 1, 36, 2)",
        "with_inserted_nodes(star(4), 1)",
        "with_deleted_nodes(torus(3, 3))",
        "with_deleted_nodes(torus(3, 3), 9)",
        "with_deleted_nodes(torus(3, 3), 1, 1)",
        "with_deleted_nodes(complete(3), 0, 1)",
        "with_deleted_nodes(de_bruijn(2, 3), 0)",
        "with_deleted_nodes(star(4), 1)",
        "with_exchanged_heads(torus(3, 3), 1)",
        "with_exchanged_heads(torus(3, 3), 1, 99)",
        "with_exchanged_heads(dgx_a100(1), 1, 2)",
    ],
)
def test_what_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(TopologyError, match="with_"):
        parse(text)
