"""What changed fabrics keep: bandwidths, latencies, names, sizes; and what is refused, in full."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from treadle.errors import TopologyError
from treadle.topologies import limits, parse, subset, with_failed_links
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.changes import (
    with_bandwidths,
    with_links,
    with_parallel_links,
    with_reverse_links,
)
from treadle.topologies.transforms.expansions import (
    degree_expansion,
    disjoint_copies,
    line_graph,
    with_axes_ordered,
    with_nodes_ordered,
)
from treadle.topologies.transforms.host_bottleneck import with_host_bottleneck
from treadle.topologies.transforms.insertions import (
    with_deleted_nodes,
    with_exchanged_heads,
    with_inserted_nodes,
)


def numbered(text: str) -> Topology:
    """Link e has e + 1 bytes/s and 10 e ns."""
    found = parse(text)
    count = np.arange(found.n_links, dtype=np.int64)
    return replace(found, bandwidths=count + 1, latencies_ns=10 * count)


def rows(topology: Topology) -> list[tuple[int, int, int, int]]:
    columns = (topology.tails, topology.heads, topology.bandwidths, topology.latencies_ns)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_links_keep_their_figures_where_nodes_come_and_go() -> None:
    ring = numbered("uni_ring(1, 4)")
    assert rows(with_inserted_nodes(ring, 2)) == [
        *((0, 1, 1, 0), (1, 2, 2, 10), (2, 4, 3, 20), (3, 0, 4, 30), (4, 3, 3, 20)),
    ]
    assert rows(with_deleted_nodes(ring, 2)) == [(0, 1, 1, 0), (1, 2, 2, 10), (2, 0, 4, 30)]
    assert rows(with_exchanged_heads(ring, 3, 1)) == [
        (0, 1, 1, 0),
        (1, 0, 2, 10),
        (2, 3, 3, 20),
        (3, 2, 4, 30),
    ]
    taken = replace(ring, node_names=("x0", "b", "c", "d"))
    assert with_inserted_nodes(taken, 2).node_names == ("n0", "n1", "n2", "n3", "n4")
    assert with_deleted_nodes(taken, 1).node_names == ("x0", "c", "d")


def test_links_keep_their_figures_where_they_are_copied() -> None:
    ring = numbered("uni_ring(1, 3)")
    assert rows(with_parallel_links(ring, 2)) == [row for row in rows(ring) for _ in range(2)]
    back = [(head, tail, speed, wait) for tail, head, speed, wait in rows(ring)]
    assert rows(with_reverse_links(ring)) == rows(ring) + back
    assert rows(with_links(ring, bandwidth=9)) == [(tail, head, 9, 0) for tail, head, *_ in rows(ring)]
    assert rows(with_links(ring, bandwidth=9, latency=4)) == [
        (tail, head, 9, 4) for tail, head, *_ in rows(ring)
    ]
    assert rows(disjoint_copies(ring, 2)) == rows(ring) + [(3 + t, 3 + h, b, w) for t, h, b, w in rows(ring)]
    assert disjoint_copies(ring, 2).node_names == ("0,n0", "0,n1", "0,n2", "1,n0", "1,n1", "1,n2")
    expanded = [(3 * i + t, 3 * j + h, b, w) for i in range(2) for j in range(2) for t, h, b, w in rows(ring)]
    assert rows(degree_expansion(ring, 2)) == expanded
    assert rows(line_graph(ring)) == [(0, 1, 1, 0), (1, 2, 2, 10), (2, 0, 3, 20)]
    place = {2: 0, 0: 1, 1: 2}
    turned = [(place[t], place[h], b, w) for t, h, b, w in rows(ring)]
    assert rows(with_nodes_ordered(ring, "2,0,1")) == turned


def test_lowered_bandwidths_tell_which_links_are_left() -> None:
    """A switch that then leads nowhere goes with its links."""
    fabric = numbered("leaf_spine(2, 1, gpus_per_leaf=1)")
    cut = np.array([0 if "spine0" in fabric.link_name(e) else 7 for e in range(fabric.n_links)])
    left, links = with_bandwidths(fabric, cut, "less")
    assert (left.name, left.node_names) == ("less", ("leaf0.gpu0", "leaf1.gpu0"))
    assert links.tolist() == []
    kept = fabric.bandwidths.copy()
    kept[:] = 7
    whole, links = with_bandwidths(fabric, kept, "whole")
    assert links.tolist() == list(range(fabric.n_links))
    assert whole.bandwidths.tolist() == [7] * fabric.n_links
    assert whole.latencies_ns.tolist() == fabric.latencies_ns.tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "with_inserted_nodes(torus(3, 3), 1, 2, 3)",
            "with_inserted_nodes: expected 4 links for each new node, found 3",
        ),
        (
            "with_inserted_nodes(torus(3, 3))",
            "with_inserted_nodes: expected 4 links for each new node, found 0",
        ),
        (
            "with_inserted_nodes(uni_ring(1, 3), 3)",
            "with_inserted_nodes: each link must be at most 2, found 3",
        ),
        (
            "with_inserted_nodes(uni_ring(1, 3), -1)",
            "with_inserted_nodes: each link must be at least 0, found -1",
        ),
        (
            "with_inserted_nodes(uni_ring(2, 3), 0, 6)",
            "with_inserted_nodes: link 6 is one of the node that it is to be cut for",
        ),
        (
            "with_inserted_nodes(uni_ring(2, 3), 0, 0)",
            "with_inserted_nodes: link 0 is one of the node that it is to be cut for",
        ),
        (
            "with_inserted_nodes(star(4), 1)",
            "with_inserted_nodes: star(4): expected a regular graph without switches and injection caps",
        ),
        ("with_deleted_nodes(uni_ring(1, 4), 4)", "with_deleted_nodes: each node must be at most 3, found 4"),
        (
            "with_deleted_nodes(uni_ring(1, 4), -1)",
            "with_deleted_nodes: each node must be at least 0, found -1",
        ),
        (
            "with_deleted_nodes(uni_ring(1, 4))",
            "with_deleted_nodes: expected different nodes, at most 2 of them, found 0",
        ),
        (
            "with_deleted_nodes(uni_ring(1, 4), 1, 1)",
            "with_deleted_nodes: expected different nodes, at most 2 of them, found 2",
        ),
        (
            "with_deleted_nodes(uni_ring(1, 4), 1, 2, 3)",
            "with_deleted_nodes: expected different nodes, at most 2 of them, found 3",
        ),
        (
            "with_deleted_nodes(de_bruijn(2, 3), 0)",
            "with_deleted_nodes: node 0 has a self-loop, which joins no two of its links",
        ),
        ("with_exchanged_heads(uni_ring(1, 4), 1)", "with_exchanged_heads: expected pairs of links, found 1"),
        ("with_exchanged_heads(uni_ring(1, 4))", "with_exchanged_heads: expected pairs of links, found 0"),
        (
            "with_exchanged_heads(uni_ring(1, 4), 1, 4)",
            "with_exchanged_heads: each link must be at most 3, found 4",
        ),
        ("with_parallel_links(ring(3), 0)", "with_parallel_links: times must be at least 1, found 0"),
        ('with_links(ring(3), bandwidth="0B/s")', "with_links: bandwidth must be at least 1, found 0"),
        (
            "with_host_bottleneck(ring(3))",
            "with_host_bottleneck: ring(3) has no injection caps; give the bandwidth between host and card",
        ),
        (
            'with_axes_ordered(ring(6), "2x2", "0,1")',
            "with_axes_ordered: expected sizes that multiply to 6 and each axis once, found '2x2' and '0,1'",
        ),
        (
            'with_axes_ordered(ring(6), "2x3", "1,2")',
            "with_axes_ordered: expected sizes that multiply to 6 and each axis once, found '2x3' and '1,2'",
        ),
        (
            'with_axes_ordered(ring(6), "2,3", "1,0")',
            "with_axes_ordered: sizes must be numbers joined by 'x' in quotes, found '2,3'",
        ),
        (
            'with_nodes_ordered(ring(3), "0,1")',
            "with_nodes_ordered: expected each node from 0 to 2 once, found '0,1'",
        ),
        (
            'with_nodes_ordered(ring(3), "0,1,12345678")',
            "with_nodes_ordered: order must be numbers joined by ',' in quotes, found '0,1,12345678'",
        ),
        ("line_graph(path(1))", "line_graph: path(1) has no links; nothing to expand"),
        (
            "disjoint_copies(fat_tree(2), 2)",
            "disjoint_copies: fat_tree(2) has the switch 'core0'; expected compute nodes only",
        ),
        ("subset(ring(4), 4)", "subset of ring(4): 4 is not within ranks 0 to 3"),
        ('subset(ring(4), "1-4")', "subset of ring(4): '1-4' is not within ranks 0 to 3"),
        (
            'subset(dgx_a100(1, 2), "box0.nvswitch")',
            "subset of dgx_a100(1, gpus_per_box=2): 'box0.nvswitch' is a switch; name compute nodes",
        ),
        ("subset(ring(4))", "subset of ring(4): expected at least one rank or compute node"),
        ('with_failed_links(ring(4), "n0->n2")', "ring(4): there is no link 'n0->n2'"),
        (
            'with_failed_links(ring(4), "n0+n2")',
            "ring(4): link 'n0+n2': expected 'tail->head' or 'one--other'",
        ),
        (
            'with_failed_links(leaf_spine(1, 1), "spine9--x")',
            "leaf_spine(1, 1): no node is called 'spine9'; did you mean 'spine0'?",
        ),
        (
            'with_failed_nodes(ring(4), "x")',
            "ring(4): no node is called 'x'; its nodes have names such as n0",
        ),
        (
            "punctured(uni_ring(1, 4), links=1)",
            "punctured: no cable of uni_ring(1, 4) can fail without parting the ranks",
        ),
        (
            "punctured(uni_ring(1, 4), nodes=1)",
            "punctured: no node of uni_ring(1, 4) can fail without parting the ranks",
        ),
        (
            'punctured(with_failed_links(path(3), "n0->n1"))',
            'punctured: with_failed_links(path(3), "n0->n1") is not strongly connected to begin with',
        ),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(TopologyError) as refused:
        parse(text)
    assert str(refused.value) == message


SIZES = {
    "with_inserted_nodes(circulant(7, 1, 2), 0, 5, 9, 20)": (8, 32),
    "with_parallel_links(complete(4), 3)": (4, 36),
    "with_reverse_links(complete(5))": (5, 40),
    'with_host_bottleneck(complete(5), bandwidth="2B/s")': (15, 30),
    'with_host_bottleneck(complete(5), bandwidth="2B/s", nic_forwards=True)': (10, 30),
}


@pytest.mark.parametrize("text", SIZES)
def test_sizes_are_known_beforehand(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    nodes, links = SIZES[text]
    function = text.partition("(")[0]
    monkeypatch.setattr(limits, "MAX_NODES", nodes)
    monkeypatch.setattr(limits, "MAX_LINKS", links)
    fabric = parse(text)
    assert (fabric.n_nodes, fabric.n_links) == (nodes, links)
    monkeypatch.setattr(limits, "MAX_LINKS", links - 1)
    with pytest.raises(
        TopologyError, match=f"{function}: this would be {links} links, the catalogue builds at most"
    ):
        parse(text)
    monkeypatch.setattr(limits, "MAX_LINKS", links)
    monkeypatch.setattr(limits, "MAX_NODES", nodes - 1)
    with pytest.raises(TopologyError, match=f": this would be {nodes} nodes, the catalogue builds at most"):
        parse(text)


def test_members_by_ranks_ranges_and_names() -> None:
    ring = parse("ring(6)")
    assert subset(ring, "4-5", 0, "n2").node_names == ("n4", "n5", "n0", "n2")
    assert subset(ring, "3-3").node_names == ("n3",)
    for wrong, words in (
        (True, "expected a rank or a name, found True"),
        (1.5, "expected a rank or a name, found 1.5"),
    ):
        with pytest.raises(TopologyError, match=words):
            subset(ring, wrong)  # type: ignore[arg-type]
    assert with_failed_links(ring, "n0--n1").name == 'with_failed_links(ring(6), "n0--n1")'


def test_orders_of_axes_and_hosts_of_odd_fabrics() -> None:
    ring = numbered("ring(6)")
    turned = with_axes_ordered(ring, "2x3", "1,0")
    assert turned.node_names == ("n0", "n3", "n1", "n4", "n2", "n5")
    assert turned.bandwidths.tolist() == ring.bandwidths.tolist()
    capped = replace(parse("path(3)"), injection_bytes_per_s=np.array([0, 5, 7]))
    slow = with_host_bottleneck(capped)
    assert slow.node_names == ("n0", "n1", "n2", "n1.in", "n1.out", "n2.in", "n2.out")
    assert [slow.link_name(e) for e in range(8)] == [
        *("n0->n1.in", "n1.out->n0", "n1.out->n2.in", "n2.out->n1.in"),
        *("n1.in->n1", "n1->n1.out", "n2.in->n2", "n2->n2.out"),
    ]
    assert slow.bandwidths.tolist() == [1, 1, 1, 1, 5, 5, 7, 7]
    assert slow.name == "with_host_bottleneck(path(3))"
