"""Which links are in a box, of the network, or hops: by hand for every kind of fabric."""

from __future__ import annotations

from collections import Counter

import pytest

from treadle.simulation.costs.cost_model import LinkClass
from treadle.simulation.costs.link_classes import CLASSES, link_classes
from treadle.topologies import parse
from treadle.topologies.topology import Topology, TopologyBuilder

BOX, HOP, NETWORK = LinkClass.BOX, LinkClass.HOP, LinkClass.NETWORK


def classes(topology: Topology) -> dict[str, LinkClass]:
    numbers = link_classes(topology).tolist()
    return {topology.link_name(link): CLASSES[number] for link, number in enumerate(numbers)}


@pytest.mark.parametrize(
    ("fabric", "counts"),
    [
        ("dgx_a100_flat(2)", {BOX: 32, NETWORK: 32}),
        # a GPU's PCIe switch and its card are of the box; cables leave from cards
        ("dgx_a100(2, pcie=True)", {BOX: 2 * 16 + 2 * 16 + 2 * 16, NETWORK: 32}),
        ("dgx_a100(1)", {BOX: 16}),
        ("mi250(2)", {BOX: 112, NETWORK: 64}),
        ("mi300x(1)", {BOX: 56}),
        ("dgx1_v100()", {BOX: 32}),
        ("gb200_nvl72(2, 4)", {BOX: 16, NETWORK: 16}),
        ("rail_optimized(4, spines=2)", {BOX: 64, NETWORK: 96}),
        ("pods(2, 2)", {BOX: 64, NETWORK: 68}),
        # names put GPUs below a leaf together, but their only links lead out through it
        ("leaf_spine(4, 2)", {NETWORK: 80}),
        ("leaf_spine(4, 2, oversubscription=2)", {NETWORK: 80}),
        ("fat_tree(4)", {NETWORK: 96}),
        ("torus(4, 4)", {HOP: 64}),
        ("generalized_kautz(2, 8)", {HOP: 16}),
        ("complete(4)", {HOP: 12}),
    ],
)
def test_every_kind_of_fabric(fabric: str, counts: dict[LinkClass, int]) -> None:
    assert Counter(classes(parse(fabric)).values()) == counts


def test_a_box_is_where_both_ends_are() -> None:
    found = classes(parse("dgx_h100(2)"))
    assert found["box0.gpu0->box0.nvswitch"] is BOX
    assert found["box0.gpu0->ib0"] is found["ib0->box1.gpu7"] is NETWORK


def test_boxes_without_telling_names_are_what_the_fastest_links_join() -> None:
    builder = TopologyBuilder("plain")
    for rank in range(4):
        builder.compute(f"g{rank}")
    for switch in ("nvs0", "nvs1", "ib"):
        builder.switch(switch)
    for rank in range(4):
        builder.duplex(f"g{rank}", f"nvs{rank // 2}", 300)
        builder.duplex(f"g{rank}", "ib", 25)
    found = classes(builder.build())
    assert {name for name, one in found.items() if one is BOX} == {name for name in found if "nvs" in name}
    assert {one for name, one in found.items() if "ib" in name} == {NETWORK}


def test_cables_between_ranks_of_different_boxes_are_the_network() -> None:
    builder = TopologyBuilder("cables")
    for box in "ab":
        builder.compute(f"{box}.0")
        builder.compute(f"{box}.1")
        builder.duplex(f"{box}.0", f"{box}.1", 300)
    builder.duplex("a.0", "b.0", 25)
    found = classes(builder.build())
    assert found["a.0->a.1"] is BOX
    assert found["a.0->b.0"] is NETWORK


def test_one_rank_a_box_is_no_box() -> None:
    builder = TopologyBuilder("hosts")
    for host in "abc":
        builder.compute(f"{host}.gpu")
    builder.duplex("a.gpu", "b.gpu", 25)
    builder.duplex("b.gpu", "c.gpu", 25)
    assert set(classes(builder.build()).values()) == {HOP}
