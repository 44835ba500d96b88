"""What changed fabrics keep: bandwidths, latencies, names, sizes; and what is refused, in full."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from treadle.errors import TopologyError
from treadle.topologies import limits, parse
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.changes import (
    with_links,
    with_parallel_links,
    with_reverse_links,
)
from treadle.topologies.transforms.expansions import (
    degree_expansion,
    disjoint_copies,
    line_graph,
    with_nodes_ordered,
)


def numbered(text: str) -> Topology:
    """Link e has e + 1 bytes/s and 10 e ns."""
    found = parse(text)
    count = np.arange(found.n_links, dtype=np.int64)
    return replace(found, bandwidths=count + 1, latencies_ns=10 * count)


def rows(topology: Topology) -> list[tuple[int, int, int, int]]:
    columns = (topology.tails, topology.heads, topology.bandwidths, topology.latencies_ns)
    return list(zip(*(column.tolist() for column in columns), strict=True))


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
