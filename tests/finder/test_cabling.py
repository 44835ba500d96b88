"""Cabling lists: every link once, every port once a direction."""

from __future__ import annotations

import csv
import io
from collections import Counter

import pytest

from treadle import cabling
from treadle.finder.cabling import Cable, cables
from treadle.topologies import de_bruijn, generalized_kautz, hypercube, parse, ring
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.units import parse_bandwidth

FABRICS = [
    ring(5),
    ring(5, bidirectional=False),
    hypercube(3),
    generalized_kautz(3, 10),
    de_bruijn(2, 3),
    parse("with_parallel_links(ring(3), 2)"),
    ring(2),
]


@pytest.mark.parametrize("topology", FABRICS, ids=lambda t: t.name)
def test_cables_cover_all_links_and_ports(topology: Topology) -> None:
    found = cables(topology)
    arcs: Counter[tuple[int, int]] = Counter()
    sending: Counter[tuple[int, int]] = Counter()
    receiving: Counter[tuple[int, int]] = Counter()
    for cable in found:
        arcs[cable.tail, cable.head] += 1
        sending[cable.tail, cable.tail_port] += 1
        receiving[cable.head, cable.head_port] += 1
        if cable.is_duplex:
            arcs[cable.head, cable.tail] += 1
            sending[cable.head, cable.head_port] += 1
            receiving[cable.tail, cable.tail_port] += 1
    assert arcs == Counter(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
    assert set(sending.values()) == set(receiving.values()) == {1}
    degree = topology.n_links // topology.n_nodes
    ports = {(node, port) for node in range(topology.n_nodes) for port in range(degree)}
    assert set(sending) == set(receiving) == ports


def test_opposite_links_share_a_cable() -> None:
    assert len(cables(hypercube(3))) == 12
    assert all(cable.is_duplex for cable in cables(hypercube(3)))
    assert not any(cable.is_duplex for cable in cables(ring(5, bidirectional=False)))


def test_csv_names_nodes_and_bandwidth() -> None:
    rows = list(csv.DictReader(io.StringIO(cabling('ring(3, bandwidth="25GB/s")').sheet.csv())))
    assert len(rows) == 3
    assert rows[0] == {
        "cable": "0",
        "from_node": "n0",
        "from_port": "0",
        "to_node": "n1",
        "to_port": "0",
        "duplex": "yes",
        "bandwidth": "25 GB/s",
    }


def test_csv_shows_every_digit_of_a_bandwidth() -> None:
    for bandwidth in (3_125_000_000, 25 * 10**9 // 3, 1, 2**50):
        text = cabling(f'ring(3, bandwidth="{bandwidth}B/s")').sheet.csv()
        assert {parse_bandwidth(row["bandwidth"]) for row in csv.DictReader(io.StringIO(text))} == {bandwidth}
    assert "3.125 GB/s" in cabling('ring(3, bandwidth="25Gbit/s")').sheet.csv()


def test_ports_of_an_odd_fabric_one_by_one() -> None:
    """Opposite links of one bandwidth share a cable, first come first served; then lone links and loops."""
    builder = TopologyBuilder("odd")
    for name in "abc":
        builder.compute(name)
    ends = ("ab5", "bc7", "aa5", "ba5", "cb6", "ba5", "ab5", "ca5", "aa5", "bc6", "ca5", "ba5")
    for link in ends:
        builder.link(link[0], link[1], int(link[2]))
    assert cables(builder.build()) == (
        Cable(0, 0, 1, 0, True, 0),
        Cable(0, 2, 0, 2, False, 2),
        Cable(0, 3, 0, 4, False, 8),
        Cable(1, 2, 0, 1, True, 5),
        Cable(1, 3, 2, 1, False, 1),
        Cable(1, 4, 0, 6, False, 11),
        Cable(2, 0, 1, 1, True, 4),
        Cable(2, 1, 0, 3, False, 7),
        Cable(2, 2, 0, 5, False, 10),
    )
