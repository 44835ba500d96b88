"""Whole pictures of small odd fabrics, as ``tests/golden/pictures`` has them.

`PYTHONPATH=tests python tests/viz/test_whole_pictures.py NAME...` writes some anew; look at them then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from places import GOLDEN
from treadle.topologies.expressions import parse as build_topology
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.topologies.transforms.failures import without_failures
from treadle.viz.fabric_layout import fabric_layout
from treadle.viz.painting import Painting, by_cut, by_hop, by_load
from treadle.viz.svg import svg

PICTURES = GOLDEN / "pictures"


def unequal_boxes() -> Topology:
    """Boxes of 1, 3 and 5 ranks: cards, a switch within, direct links; a spine over two of three leaves."""
    builder = TopologyBuilder("unequal <boxes>")
    for name in ("leaf0", "leaf1", "leaf2", "a long name of a spine"):
        builder.switch(name)
    builder.compute("x.gpu0")
    builder.duplex("x.gpu0", "leaf0", 5)
    for place in range(3):
        builder.compute(f"y.gpu{place}")
        builder.switch(f"y.nic{place}")
        builder.duplex(f"y.gpu{place}", f"y.nic{place}", 7)
        builder.duplex(f"y.nic{place}", f"leaf{place % 2}", 7)
    builder.switch("y.nvswitch")
    for place in range(5):
        builder.compute(f"z.gpu{place}")
    for place in range(3):
        builder.duplex(f"y.gpu{place}", "y.nvswitch", 11)
    for one, other in ((0, 1), (1, 2), (0, 3), (3, 4), (1, 4)):
        builder.duplex(f"z.gpu{one}", f"z.gpu{other}", 13)
    builder.switch("z.hub")
    builder.duplex("z.gpu4", "z.hub", 3)
    builder.duplex("z.gpu1", "leaf1", 2)
    builder.duplex("z.hub", "leaf2", 3)
    builder.duplex("leaf0", "a long name of a spine", 17)
    builder.duplex("leaf2", "a long name of a spine", 17)
    builder.duplex("leaf0", "leaf1", 1)
    builder.duplex("x.gpu0", "z.gpu2", 4)
    return builder.build()


def two_rows() -> Topology:
    """Boxes too wide for one row; switches near the upper row, near the lower, and between."""
    builder = TopologyBuilder("two rows")
    for name in ("top", "bottom", "middle", "apart"):
        builder.switch(name)
    for box in range(5):
        own = [builder.compute(f"box{box}.gpu{place}") for place in range(9 + box)]
        for place, gpu in enumerate(own):
            builder.duplex(gpu, ("top" if box < 2 else "bottom") if place % 2 else "middle", 3)
    builder.duplex("top", "apart", 5)
    builder.duplex("bottom", "apart", 5)
    builder.duplex("box0.gpu0", "box4.gpu3", 2)
    builder.duplex("box1.gpu0", "box0.gpu2", 2)
    builder.duplex("box2.gpu1", "box4.gpu1", 2)
    return builder.build()


def one_way_pair() -> Topology:
    """Two nodes with names that tell no place, linked one way twice and back once."""
    builder = TopologyBuilder("pair")
    builder.compute("left & right")
    builder.compute("other")
    builder.link("left & right", "other", 3)
    builder.link("left & right", "other", 5)
    builder.link("other", "left & right", 2)
    return builder.build()


def loaded(topology: Topology) -> Painting:
    """Every load in turn, at its limits and just beyond."""
    shares = (0.0, 0.15, 0.16, 0.5, 0.51, 1.0)
    busy = [shares[link * 5 // 3 % 6] for link in range(topology.n_links)]
    full = [link % 7 == 5 for link in range(topology.n_links)]
    return by_load(
        fabric_layout(topology), busy, full, title="how <busy> links are", caption="busiest way of each " * 9
    )


def cut(topology: Topology) -> Painting:
    """The first three nodes cut off."""
    inside = [node < 3 for node in range(topology.n_nodes)]
    crossing = [
        inside[tail] != inside[head]
        for tail, head in zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)
    ]
    return by_cut(fabric_layout(topology), inside, crossing, title="a cut", caption="bottleneck cut")


def tree(topology: Topology) -> Painting:
    """Every third link a hop, up to hop 7; both ways of some."""
    hops = {link: 1 + link // 3 % 7 for link in range(0, topology.n_links) if link % 3 != 1}
    return by_hop(fabric_layout(topology), hops, 1, title="", caption="a tree")


def bare(topology: Topology) -> Painting:
    """Nothing but the fabric."""
    return Painting(fabric_layout(topology))


def titled(topology: Topology) -> Painting:
    """A title that is wider than the picture."""
    return Painting(fabric_layout(topology), title=f"{topology.name}: " + "wide " * 20)


def damaged() -> Topology:
    """One rank of many lacks its leaf: its box and its pod are kinds of their own."""
    return without_failures(build_topology("pods(3, 12)"), ["box5.gpu3--leaf0"])


def one_large_box() -> Topology:
    """A box of 70 ranks, each with a card, two of them with a second one; a switch of the first half only."""
    builder = TopologyBuilder("one box")
    for name in ("leaf0", "leaf1", *(f"box.half{place}" for place in range(2))):
        builder.switch(name)
    for place in range(70):
        builder.compute(f"box.gpu{place}")
        builder.switch(f"box.nic{place}")
        builder.duplex(f"box.gpu{place}", f"box.nic{place}", 2)
        builder.duplex(f"box.nic{place}", f"leaf{place % 2}", 2)
        builder.duplex(f"box.gpu{place}", f"box.half{place // 35}", 5)
    for place in (0, 69):
        builder.switch(f"box.nic{place}b")
        builder.duplex(f"box.gpu{place}", f"box.nic{place}b", 2)
        builder.duplex(f"box.nic{place}b", "leaf0", 2)
    return builder.build()


def unequal_pods() -> Topology:
    """Zones of 2 and 3 pods, pods of 9 to 11 boxes; of one box the links one way are slower."""
    builder = TopologyBuilder("unequal pods")
    for zone in range(2):
        builder.switch(f"core{zone}")
        for pod in range(2 + zone):
            leaf = builder.switch(f"leaf{zone}{pod}")
            builder.duplex(leaf, f"core{zone}", 40)
            for box in range(9 + pod):
                for place in range(6):
                    gpu = builder.compute(f"z{zone}p{pod}b{box}.gpu{place}")
                    builder.link(gpu, leaf, 4)
                    builder.link(leaf, gpu, 3 if (zone, pod, box) == (1, 1, 4) else 4)
    builder.switch("top")
    builder.duplex("core0", "top", 80)
    builder.duplex("core1", "top", 80)
    return builder.build()


FABRICS: dict[str, tuple[Callable[[], Topology] | str, Callable[[Topology], Painting]]] = {
    "unequal_boxes": (unequal_boxes, loaded),
    "two_rows": (two_rows, bare),
    "pair": (one_way_pair, tree),
    "mesh_of_16": ("mi250(1)", cut),
    "crowded_mesh": ("mi300x(2)", bare),
    "cards": ("dgx_a100(2)", tree),
    "small_torus": ("torus(3, 4)", tree),
    "wide_torus": ("torus(2, 24)", loaded),
    "complete": ("complete(7)", loaded),
    "kautz": ("generalized_kautz(2, 40)", titled),
    "neighbours": ("torus(17, 16)", titled),
    "groups": ("dgx_h100(9)", cut),
    "one_large_box": (one_large_box, titled),
    "unequal_pods": (unequal_pods, bare),
    "damaged": (damaged, titled),
    "kinds": ("leaf_spine(36, 8)", bare),
}


def drawn(name: str) -> str:
    """What the golden file of a picture holds."""
    fabric, paint = FABRICS[name]
    return svg(paint(build_topology(fabric) if isinstance(fabric, str) else fabric()))


@pytest.mark.parametrize("name", FABRICS)
def test_pictures_look_as_they_did(name: str) -> None:
    assert drawn(name).splitlines() == (PICTURES / f"{name}.svg").read_text(encoding="utf-8").splitlines()


def test_one_rank_or_box_more_is_too_much() -> None:
    assert len(fabric_layout(build_topology("leaf_spine(13, 5)")).marks) < 65
    assert fabric_layout(build_topology("pods(1, 33)")).left_out == "one piece of each kind is drawn"


if __name__ == "__main__":
    for one in sys.argv[1:]:
        (PICTURES / f"{one}.svg").write_text(drawn(one), encoding="utf-8")
