"""Yardsticks on small fabrics reckoned by hand, and shares at the edge of what a healthy system reaches."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from treadle.diagnosis.diagnosed import ReferenceBandwidth
from treadle.diagnosis.examination import _above, _is_low
from treadle.diagnosis.limit_position import LimitPosition, limit_position_of, pcie_limit
from treadle.diagnosis.reference_bandwidths import (
    Limit,
    _between_boxes,
    _limit,
    _part,
    _restricted,
    egress_links,
    has_fast_links,
    least_cut,
    least_nics,
    optimum,
    ring_limit,
    with_nics,
    with_sums,
    without_sums,
)
from treadle.schedules.certificate import BottleneckCut
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.topologies import Topology, TopologyBuilder, parse
from treadle.topologies.named_boxes import Boxes, find_boxes, rank_boxes

GB = 10**9


def boxes_of(topology: Topology) -> Boxes:
    return find_boxes(topology, rank_boxes(topology))


def links_of(topology: Topology, *names: str) -> tuple[int, ...]:
    known = {topology.link_name(link): link for link in range(topology.n_links)}
    return tuple(sorted(known[name] for name in names))


def lopsided(*, fast: int = 100 * GB, nic: int = 10 * GB) -> Topology:
    """A box of two GPUs and one of three, each with a switch, PCIe and cards, at a network's switch."""
    builder = TopologyBuilder("lopsided")
    gpus = [builder.compute(f"box{box}.gpu{gpu}") for box, gpu in ((0, 0), (0, 1), (1, 0), (1, 1), (1, 2))]
    switches = [builder.switch(f"box{box}.nvswitch") for box in range(2)]
    bridges = [builder.switch(f"box{box}.pcie") for box in range(2)]
    cards = [builder.switch(f"box{box}.nic{nic}") for box, nic in ((0, 0), (1, 0), (1, 1))]
    top = builder.switch("ib")
    for place, gpu in enumerate(gpus):
        box = int(place > 1)
        builder.duplex(gpu, switches[box], fast)
        builder.duplex(gpu, bridges[box], 30 * GB)
    for place, card in enumerate(cards):
        builder.duplex(bridges[int(place > 0)], card, 20 * GB)
        builder.duplex(card, top, nic)
    return builder.build()


def test_ways_out_are_switches_that_reach_the_network_over_switches() -> None:
    fabric = lopsided()
    boxes = boxes_of(fabric)
    found = [fabric.node_names[node] for node in np.flatnonzero(egress_links(fabric, boxes))]
    assert found == ["box0.pcie", "box1.pcie", "box0.nic0", "box1.nic0", "box1.nic1"]
    none = np.zeros(fabric.n_links, dtype=np.bool_)
    assert not egress_links(fabric, boxes, none).any()
    some = np.ones(fabric.n_links, dtype=np.bool_)
    some[list(links_of(fabric, "box1.nic0->ib", "box1.nic1->ib"))] = False
    found = [fabric.node_names[node] for node in np.flatnonzero(egress_links(fabric, boxes, some))]
    assert found == ["box0.pcie", "box0.nic0"]


def test_rings_between_unequal_boxes() -> None:
    """The one card of the first box carries 10 GB/s; all ranks of a box count as one."""
    fabric = lopsided()
    boxes = boxes_of(fabric)
    assert least_nics(fabric, boxes) == 1
    limit = ring_limit(fabric, boxes)
    assert (limit.busbw, limit.capacity) == (10 * GB, 10 * GB)
    assert _between_boxes(fabric, boxes).busbw == 10 * GB
    assert set(limit.links) <= set(
        links_of(fabric, "box0.nic0->ib", "ib->box0.nic0", "box0.pcie->box0.nic0", "box0.nic0->box0.pcie")
    )
    assert limit_position_of(fabric, boxes, limit) is LimitPosition.NICS
    slow = lopsided(fast=9 * GB)
    inside = ring_limit(slow, boxes_of(slow))
    assert inside.busbw == 9 * GB
    assert limit_position_of(slow, boxes_of(slow), inside) is LimitPosition.BOX


def test_the_first_cards_of_each_box() -> None:
    fabric = lopsided()
    one = with_nics(fabric, boxes_of(fabric), 1)
    assert [len(links) for links in boxes_of(one).leaving(one)] == [1, 1]
    names = {one.link_name(link) for link in range(one.n_links)}
    assert {"box1.nic0->ib", "ib->box1.nic0"} <= names
    assert not {"box1.nic1->ib", "ib->box1.nic1"} & names
    assert with_nics(fabric, boxes_of(fabric), 2) == fabric
    assert least_nics(parse("dgx_a100:1"), boxes_of(parse("dgx_a100:1"))) == 0


def one_way() -> Topology:
    """A circle of 1, 2 and 3 bytes/s, and 4 bytes/s back from b to a."""
    builder = TopologyBuilder("circle")
    a, b, c = (builder.compute(name) for name in "abc")
    for tail, head, width in ((a, b, 2), (b, c, 3), (c, a, 1), (b, a, 4)):
        builder.link(tail, head, width)
    return builder.build()


def test_the_least_cut_may_lead_out_or_in() -> None:
    """c has 1 byte/s out and 3 in; a 2 out and 5 in."""
    fabric = one_way()
    found = least_cut(fabric)
    assert found == Limit(Fraction(1), links_of(fabric, "c->a"), 1)
    turned = replace(fabric, tails=fabric.heads, heads=fabric.tails)
    found = least_cut(turned)
    assert (found.busbw, found.capacity) == (1, 1)
    assert [turned.link_name(link) for link in found.links] == ["a->c"]


def by_cut(*nodes: int) -> Any:
    return SimpleNamespace(certificate=BottleneckCut(nodes))


def test_links_of_cuts() -> None:
    """Of a broadcast those out of the witness's nodes, of a reduce those into them."""
    fabric = one_way()
    ranks = (0, 1, 2)
    for kind, names, capacity in (
        (CollectiveKind.BROADCAST, ("a->b",), 2),
        (CollectiveKind.REDUCE, ("c->a", "b->a"), 5),
    ):
        found = _limit(fabric, Collective(kind, ranks, root=0), by_cut(0), Fraction(9))
        assert found == Limit(Fraction(9), links_of(fabric, *names), capacity)
    two = _limit(fabric, Collective(CollectiveKind.ALLGATHER, ranks), by_cut(0, 1), Fraction(9))
    assert (two.links, two.capacity) == (links_of(fabric, "b->c"), 3)


def test_optima_as_busbw() -> None:
    ring = parse("ring(4, bandwidth='2B/s')")
    for kind, busbw in (("allgather", 4), ("reduce-scatter", 4), ("broadcast", 4), ("allreduce", 4)):
        found = optimum(ring, CollectiveKind(kind), root=0 if kind == "broadcast" else None)
        assert found.busbw == busbw, kind
        assert found.links, kind
    exchange = optimum(ring, CollectiveKind.ALLTOALL)
    assert exchange.busbw > 0
    assert exchange.is_priced or exchange.links == () or exchange.capacity


def test_parts_of_fabrics() -> None:
    fabric = lopsided()
    nodes = np.array([name.startswith("box1.") for name in fabric.node_names])
    part, links = _part(fabric, nodes)
    assert part.node_names == tuple(name for name in fabric.node_names if name.startswith("box1."))
    assert [part.link_name(place) for place in range(part.n_links)] == [
        fabric.link_name(link) for link in links.tolist()
    ]
    assert part.bandwidths.tolist() == fabric.bandwidths[links].tolist()
    alone = np.array([name in ("box1.gpu0", "box1.nic1", "box1.pcie") for name in fabric.node_names])
    part, links = _part(fabric, alone & ~np.array([name == "box1.pcie" for name in fabric.node_names]))
    assert (part.node_names, links.tolist()) == (("box1.gpu0",), [])


def test_what_is_left() -> None:
    whole = lopsided()
    caps = np.arange(whole.n_nodes)
    whole = replace(whole, injection_bytes_per_s=np.where(whole.is_compute, caps + 1, 0))
    some = np.array(["ib" not in whole.link_name(link) for link in range(whole.n_links)])
    left = _restricted(whole, some)
    assert left.node_names == tuple(name for name in whole.node_names if name != "ib")
    assert left.n_links == whole.n_links - 6
    assert left.injection_bytes_per_s.tolist() == [
        int(cap)
        for cap, name in zip(whole.injection_bytes_per_s, whole.node_names, strict=True)
        if name != "ib"
    ]


def test_switches_that_sum() -> None:
    """NVSwitches for ranks that ask, the network's by themselves; no PCIe, no cards."""
    fabric = lopsided(fast=150 * GB)
    boxes = boxes_of(fabric)

    def able(topology: Topology | None, field: str) -> list[str]:
        assert topology is not None
        return [topology.node_names[node] for node in np.flatnonzero(getattr(topology, field))]

    for nvls, sharp, switches, by_themselves in (
        (True, False, ["box0.nvswitch", "box1.nvswitch"], []),
        (False, True, ["ib"], ["ib"]),
        (True, True, ["box0.nvswitch", "box1.nvswitch", "ib"], ["ib"]),
    ):
        found = with_sums(fabric, boxes, nvls=nvls, sharp=sharp)
        assert able(found, "multicast") == able(found, "aggregation") == switches
        assert able(found, "turns_round") == by_themselves
        assert found is not None
        assert without_sums(found) == fabric
    assert with_sums(fabric, boxes, nvls=False, sharp=False) is None
    assert with_sums(lopsided(), boxes, nvls=True, sharp=False) is None, "as slow as PCIe: no NVSwitch"
    assert with_sums(parse("ring:4"), boxes_of(parse("ring:4")), nvls=True, sharp=True) is None


@pytest.mark.parametrize(("width", "able"), [(100 * GB, False), (100 * GB + 1, True)])
def test_switches_between_hosts_sum_where_no_card_is_as_fast(width: int, able: bool) -> None:
    builder = TopologyBuilder("rack")
    gpus = [builder.compute(f"host{host}.gpu{gpu}") for host in range(2) for gpu in range(2)]
    switch = builder.switch("nvswitch")
    for gpu in gpus:
        builder.duplex(gpu, switch, width)
    rack = builder.build()
    found = with_sums(rack, boxes_of(rack), nvls=True, sharp=False)
    assert (found is not None) is able


@pytest.mark.parametrize(("width", "is_fast"), [(20 * GB, True), (20 * GB - 1, False)])
def test_fast_links_of_a_box(width: int, is_fast: bool) -> None:
    """Directly, or over a switch that joins GPUs alone; never over PCIe with a way out."""
    direct = TopologyBuilder("direct")
    one, other = direct.compute("box0.a"), direct.compute("box0.b")
    direct.duplex(one, other, width)
    fabric = direct.build()
    assert has_fast_links(fabric, boxes_of(fabric)) is is_fast
    found = lopsided(fast=width)
    assert has_fast_links(found, boxes_of(found)) is is_fast, "PCIe of 30 GB/s does not count"
    apart = TopologyBuilder("apart")
    one, other = apart.compute("box0.a"), apart.compute("box1.b")
    apart.duplex(one, other, width)
    fabric = apart.build()
    assert not has_fast_links(fabric, boxes_of(fabric))


@pytest.mark.parametrize(("capacity", "is_much"), [(10, True), (11, False)])
def test_cards_that_could_carry_much_more(capacity: int, is_much: bool) -> None:
    """13 GB/s of cards: 1.3 times 10, but not 1.3 times 11."""
    fabric = lopsided(nic=13 * GB)
    limit = Limit(Fraction(1), links_of(fabric, "box0.gpu0->box0.pcie"), capacity * GB)
    found = pcie_limit(fabric, boxes_of(fabric), limit)
    assert (found is not None) is is_much
    if found is not None:
        assert (found.bandwidth, found.nics, found.n_nics) == (10 * GB, 13 * GB, 1)


def test_places_without_a_cut() -> None:
    fabric = lopsided()
    boxes = boxes_of(fabric)
    assert limit_position_of(fabric, boxes, Limit(Fraction(1), (0,), is_priced=True)) is LimitPosition.PRICES
    assert limit_position_of(fabric, boxes, Limit(Fraction(1))) is LimitPosition.SEVERAL
    for names, place in (
        (("box0.nic0->ib",), LimitPosition.NICS),
        (("box0.gpu0->box0.pcie", "box0.gpu0->box0.nvswitch"), LimitPosition.GPU),
        (("box0.gpu0->box0.nvswitch",), LimitPosition.BOX),
        (("box0.gpu0->box0.pcie",), LimitPosition.PCIE),
        (("box0.pcie->box0.nic0",), LimitPosition.NICS),
        (("box0.pcie->box0.nic0", "box1.nic0->ib"), LimitPosition.NICS),
    ):
        assert limit_position_of(fabric, boxes, Limit(Fraction(1), links_of(fabric, *names))) is place, names
    fast = lopsided(nic=21 * GB)
    slow = Limit(Fraction(1), links_of(fast, "box0.pcie->box0.nic0"))
    assert limit_position_of(fast, boxes_of(fast), slow) is LimitPosition.PCIE, "its port is faster"


def yard(
    name: str, share: float, place: LimitPosition = LimitPosition.NICS, *, whole: bool = False
) -> ReferenceBandwidth:
    return ReferenceBandwidth(name, Limit(Fraction(1)), share, place, whole)


@pytest.mark.parametrize(
    ("yardsticks", "is_low"),
    [
        ([yard("ring", 0.85)], False),
        ([yard("ring", 0.849)], True),
        ([yard("ring", 0.849, LimitPosition.PCIE)], True),
        ([yard("ring", 0.85, LimitPosition.NETWORK)], False),
        ([yard("ring", 0.75, LimitPosition.BOX)], False),
        ([yard("ring", 0.749, LimitPosition.GPU)], True),
        ([yard("ring", 0.1), yard("optimum", 1.0)], False),
        ([yard("ring", 0.1), yard("optimum", 0.99)], True),
        ([yard("ring", 0.1), yard("in-network", 0.6)], False),
        ([yard("ring", 0.1), yard("in-network", 0.59)], True),
        ([yard("optimum", 0.6)], False),
        ([yard("optimum", 0.59)], True),
        ([yard("ring", 0.1), yard("ring", 2.0, whole=True)], True),
    ],
)
def test_what_a_healthy_system_reaches(yardsticks: list[ReferenceBandwidth], is_low: bool) -> None:
    assert _is_low(yardsticks) is is_low


@pytest.mark.parametrize(
    ("yardsticks", "told"),
    [
        ([yard("ring", 2.0)], ""),
        ([yard("optimum", 1.0)], ""),
        ([yard("optimum", 1.01)], "above the optimum: the stated speeds of links are too low"),
        (
            [yard("optimum", 1.01), yard("in-network", 1.01)],
            "above the in-network optimum: the stated speeds of links are too low",
        ),
        (
            [yard("optimum", 1.01), yard("in-network", 1.0)],
            "faster than possible without in-network reduction: NVLS or SHARP is in use: compare with that",
        ),
        ([yard("optimum", 0.5), yard("optimum", 3.0, whole=True)], ""),
    ],
)
def test_figures_above_the_optimum(yardsticks: list[ReferenceBandwidth], told: str) -> None:
    found: Any = _above(yardsticks)
    assert found == told
