"""Fabrics of boxes cable by cable, what is said of them, and every refusal in full."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.errors import FormatError
from treadle.topologies.readers.boxes import networks
from treadle.topologies.readers.boxes.box import (
    Box,
    Bridge,
    BridgeKind,
    Gpu,
    GpuLink,
    HostLink,
    HostSpeed,
    Nic,
    Slot,
)
from treadle.topologies.readers.boxes.networks import fabric_of
from treadle.topologies.readers.boxes.recognised import recognise
from treadle.topologies.readers.imported import (
    Finding,
    Imported,
    ImportOptions,
    LinkSpeeds,
    PcieDetail,
    SourceFile,
)
from treadle.topologies.topology import Topology

SOURCE = SourceFile("", "box.xml")
GB = 10**9
HALF = GB // 2


def bridge(
    name: str, above: int | None = None, bandwidth: int | None = None, *, card: bool = False
) -> Bridge:
    kind = BridgeKind.HOST if above is None else BridgeKind.CARD if card else BridgeKind.SWITCH
    return Bridge(kind=kind, name=name, above=above, bandwidth=bandwidth)


def gpu(number: int, above: int | None, bandwidth: int = 16 * GB, **facts: Any) -> Gpu:
    return Gpu(name=f"G{number}", slot=Slot(above=above, bandwidth=bandwidth), **facts)


def nic(number: int, above: int | None, speed: int | None = 5 * GB, bandwidth: int | None = 8 * GB) -> Nic:
    return Nic(name=f"n{number}", bandwidth=speed, slot=Slot(above=above, bandwidth=bandwidth))


# CPUs 0 and 1; switches 2 (two GPUs, a NIC), 3 (a GPU, a NIC); a NIC at CPU 1 itself
TREE = (bridge("c0"), bridge("c1"), bridge("s0", 0, 12 * GB), bridge("s1", 1, 12 * GB))
BOX = Box(
    gpus=(gpu(0, 2), gpu(1, 2, 10 * GB), gpu(2, 3)),
    links=(
        GpuLink(gpu=0, other=None, count=2, bandwidth=40 * GB),
        GpuLink(gpu=1, other=None, count=2, bandwidth=40 * GB),
        GpuLink(gpu=2, other=None, count=1, bandwidth=20 * GB),
    ),
    nics=(nic(0, 2), nic(1, 3, 7 * GB), nic(2, 1, 3 * GB)),
    bridges=TREE,
    host_links=(HostLink(one=0, other=1, bandwidth=9 * GB, origin=HostSpeed.LIBRARY),),
    n_switches=4,
)


def made(box: Box = BOX, **options: Any) -> Imported:
    return fabric_of(SOURCE, box, ImportOptions(**options), "test")


def cables(topology: Topology) -> list[tuple[str, str, int]]:
    names = topology.node_names
    rows = list(
        zip(topology.tails.tolist(), topology.heads.tolist(), topology.bandwidths.tolist(), strict=True)
    )
    assert [(head, tail, speed) for tail, head, speed in rows[::2]] == rows[1::2]
    return [(names[tail], names[head], speed) for tail, head, speed in rows[::2]]


NVLINKS = [
    ("{0}.gpu0", "{0}.nvswitch", 40 * GB),
    ("{0}.gpu1", "{0}.nvswitch", 40 * GB),
    ("{0}.gpu2", "{0}.nvswitch", 20 * GB),
]
# two GPUs share a switch with one NIC of 5 GB/s; the third's own NIC hangs from it at once
NEAR = [
    ("{0}.gpu0", "{0}.pcie0", 5 * GB),
    ("{0}.gpu1", "{0}.pcie0", 5 * GB),
    ("{0}.nic0", "{0}.pcie0", 5 * GB),
    ("{0}.nic1", "{0}.gpu2", 7 * GB),
]


def of_boxes(rows: list[tuple[str, str, int]], boxes: int) -> list[tuple[str, str, int]]:
    return [(a.format(f"box{b}"), c.format(f"box{b}"), speed) for b in range(boxes) for a, c, speed in rows]


def test_one_box_has_no_network() -> None:
    found = made()
    assert cables(found.topology) == of_boxes(NVLINKS, 1)
    assert (found.topology.name, found.format) == ("box", "test")
    assert (found.defaulted, found.warnings) == ((), ())
    assert found.recognised == {
        "GPUs": "3 x of unknown model",
        "links": "NVLink: 2 x GPU to switch 2 of 20 GB/s, GPU to switch 1 of 20 GB/s",
        "switches": "4 NVSwitches, as one",
        "rank order": "as in the file: gpu0 = G0, gpu1 = G1, gpu2 = G2",
        "NICs": "5 GB/s, 7 GB/s, 3 GB/s",
        "boxes": "1",
    }


def test_two_boxes_on_rails() -> None:
    found = made(boxes=2, network="rail")
    rails = [
        (f"box{b}.nic{k}", f"ib{k}", speed) for b in range(2) for k, speed in enumerate((5 * GB, 7 * GB))
    ]
    assert cables(found.topology) == of_boxes(NVLINKS, 2) + of_boxes(NEAR, 2) + rails
    assert found.warnings == (
        Finding("shares no PCIe switch with a GPU and is left out; --nics all takes it", "n2"),
    )
    assert found.recognised["used NICs"] == "2: nic0 = n0, nic1 = n1"
    assert found.recognised["pairs"] == "gpu0+gpu1: n0; gpu2: n1"
    assert found.recognised["PCIe"] == "2 x gpu 5 GB/s, nic 5 GB/s, nic 7 GB/s"
    assert found.recognised["boxes"] == "2, joined by rail"
    assert found.topology.node_names[:8] == (
        *(f"box0.{name}" for name in ("gpu0", "gpu1", "gpu2", "nvswitch")),
        *(f"box1.{name}" for name in ("gpu0", "gpu1", "gpu2", "nvswitch")),
    )


@pytest.mark.parametrize(
    ("network", "rails"), [("one-switch", 1), ("rails:1", 1), ("rails:2", 2), ("rails:3", 3)]
)
def test_rails_by_number(network: str, rails: int) -> None:
    found = made(boxes=2, network=network, nics="all")
    names = [(f"box{b}.nic{k}", f"ib{k % rails}") for b in range(2) for k in range(3)]
    assert [(one, other) for one, other, _ in cables(found.topology) if other.startswith("ib")] == names


FULL = [
    ("{0}.gpu0", "{0}.pcie0", 16 * GB),
    ("{0}.pcie0", "{0}.cpu0", 12 * GB),
    ("{0}.gpu1", "{0}.pcie0", 10 * GB),
    ("{0}.gpu2", "{0}.pcie1", 16 * GB),
    ("{0}.pcie1", "{0}.cpu1", 12 * GB),
    ("{0}.nic0", "{0}.pcie0", 5 * GB),
    ("{0}.nic1", "{0}.pcie1", 7 * GB),
    ("{0}.nic2", "{0}.cpu1", 3 * GB),
    ("{0}.cpu0", "{0}.cpu1", 9 * GB),
]


def test_a_far_nic_takes_the_whole_tree() -> None:
    found = made(boxes=2, network="one-switch", nics="all")
    switch = [(f"box{b}.nic{k}", "ib0", speed * GB) for b in range(2) for k, speed in enumerate((5, 7, 3))]
    assert cables(found.topology) == of_boxes(NVLINKS, 2) + of_boxes(FULL, 2) + switch
    assert found.warnings == (
        Finding("shares no switch with a GPU: the whole PCIe tree is part of the fabric", "n2"),
        Finding("between CPUs: 9 GB/s each way, as the libraries take it; the file does not say"),
        Finding("its PCIe link carries 10 GB/s, that of another GPU 16 GB/s", "G1"),
        Finding("share one PCIe uplink of 12 GB/s to the CPU", "G0, G1"),
    )


def test_the_whole_tree_of_one_box() -> None:
    found = made(pcie=PcieDetail.FULL, links=LinkSpeeds.LIBRARY)
    tree = [
        ("{0}.gpu0", "{0}.pcie0", 16 * GB),
        ("{0}.pcie0", "{0}.cpu0", 12 * GB),
        ("{0}.gpu1", "{0}.pcie0", 10 * GB),
    ]
    # a switch with one GPU below it and one way up is none
    tree += [("{0}.gpu2", "{0}.cpu1", 12 * GB), ("{0}.cpu0", "{0}.cpu1", 9 * GB)]
    assert cables(found.topology) == of_boxes(NVLINKS, 1) + of_boxes(tree, 1)
    assert found.topology.name == "box, library's speeds, all of PCIe"
    assert found.warnings[0].text.startswith("between CPUs: 9 GB/s each way, as the libraries take it; ")


def test_gpus_that_links_do_not_join_meet_over_pcie() -> None:
    apart = Box(gpus=BOX.gpus, links=BOX.links[:2], bridges=TREE, host_links=BOX.host_links)
    found = made(apart)
    assert found.warnings[0] == Finding("links join not all GPUs: the whole PCIe tree is part of the fabric")
    assert ("box0.cpu0", "box0.cpu1", 9 * GB) in cables(found.topology)
    unknown = HostLink(one=0, other=1, bandwidth=None, origin=HostSpeed.UNKNOWN)
    box = Box(gpus=BOX.gpus, bridges=TREE, host_links=(unknown,))
    with pytest.raises(FormatError, match=r"how fast c0 and c1 are joined, as 32GB/s; say it by --cpu-link"):
        made(box)
    assert ("box0.cpu0", "box0.cpu1", 6 * GB) in cables(made(box, cpu_link=6 * GB).topology)
    own = HostLink(one=0, other=1, bandwidth=6 * GB)
    places = [one.place for one in made(Box(gpus=BOX.gpus, bridges=TREE, host_links=(own,))).warnings]
    assert places == ["", "G1", "G2", "G0, G1"]


def test_leaves_and_spines_share_what_boxes_bring() -> None:
    """Three boxes of 12 GB/s on two leaves, two and one; 3 spines at 2:1."""
    found = made(boxes=3, network="leaf-spine:2,3,2:1")
    rows = [row for row in cables(found.topology) if "leaf" in row[0] + row[1]]
    expected = [("box0.nic0", "leaf0", 5 * GB), ("box0.nic1", "leaf0", 7 * GB)]
    expected += [("box1.nic0", "leaf0", 5 * GB), ("box1.nic1", "leaf0", 7 * GB)]
    expected += [("leaf0", f"spine{k}", 4 * GB) for k in range(3)]
    expected += [("box2.nic0", "leaf1", 5 * GB), ("box2.nic1", "leaf1", 7 * GB)]
    expected += [("leaf1", f"spine{k}", 2 * GB) for k in range(3)]
    assert sorted(rows) == sorted(expected)
    plain = made(boxes=2, network="leaf-spine:2,1")
    assert ("leaf1", "spine0", 12 * GB) in cables(plain.topology)


def test_speeds_of_nics_that_are_typed() -> None:
    five = Box(
        gpus=(gpu(0, 2),), nics=tuple(nic(k, 2, 4 * GB + (k == 2) * GB) for k in range(6)), bridges=TREE
    )
    found = made(five, boxes=2, network="rail", nic_bandwidth=3 * GB)
    text = "{} in the file, 3 GB/s by --nic-bandwidth"
    assert found.warnings == (
        Finding(text.format("4 GB/s"), "n0, n1, n3 and 2 more"),
        Finding(text.format("5 GB/s"), "n2"),
    )
    four = Box(gpus=five.gpus, nics=five.nics[:2] + five.nics[3:5], bridges=TREE)
    assert made(four, boxes=2, network="rail", nic_bandwidth=3 * GB).warnings[0].place == "n0, n1, n3, n4"
    assert made(four, boxes=2, network="rail", nic_bandwidth=4 * GB).warnings == ()
    silent = Box(gpus=five.gpus, nics=(nic(0, 2, None),), bridges=TREE)
    assert made(silent, boxes=2, network="rail", nic_bandwidth=GB).warnings == ()
    assert made(silent).recognised["NICs"] == "speed not given"


NO_HOST = tuple(Bridge(kind=BridgeKind.SWITCH, name=f"s{k}") for k in range(2))
DUMP = "read a dump of the machine (NCCL_TOPO_DUMP_FILE)"
NEEDS = "which --pcie full, GPUs that links do not join, and NICs that share no switch with a GPU need"
EXPECTED = "expected one-switch, rail, rails:K or leaf-spine:L,S[,over]"


@pytest.mark.parametrize(
    ("facts", "options", "message"),
    [
        (
            {},
            {"boxes": 2},
            "the file describes one box; say by --network what joins 2: one-switch, rail, rails:K "
            "or leaf-spine:L,S[,over]",
        ),
        ({}, {"network": "rail"}, "--network joins several boxes; say by --boxes how many there are"),
        ({}, {"boxes": 2, "network": "rail:2"}, f"--network 'rail:2': {EXPECTED}; did you mean rails:2?"),
        ({}, {"boxes": 2, "network": "Rails:2"}, f"--network 'Rails:2': {EXPECTED}; did you mean rails:2?"),
        ({}, {"boxes": 2, "network": "zz"}, f"--network 'zz': {EXPECTED}"),
        (
            {},
            {"boxes": 2, "network": "rails:4", "nics": "all"},
            "--network rails:4: a box has 3 NICs, expected 1 to 3 rails",
        ),
        (
            {},
            {"boxes": 2, "network": "rails:0"},
            "--network rails:0: a box has 2 NICs, expected 1 to 2 rails",
        ),
        *(
            (
                {},
                {"boxes": 2, "network": network},
                f"--network {network}: expected 1 to 2 leaves (there are 2 boxes), at "
                "least one spine and an oversubscription of at least 1",
            )
            for network in (
                "leaf-spine:0,1",
                "leaf-spine:3,1",
                "leaf-spine:1,0",
                "leaf-spine:1,65537",
                "leaf-spine:1,1,0",
            )
        ),
        (
            {"nics": (nic(0, 2, 1),)},
            {"boxes": 2, "network": "leaf-spine:1,1,3"},
            "--network leaf-spine:1,1,3: less than 1 byte/s is left for an uplink",
        ),
        ({"nics": ()}, {"boxes": 2, "network": "rail"}, "has no NICs, and so nothing joins several boxes"),
        (
            {"nics": (nic(0, 1),)},
            {"boxes": 2, "network": "rail"},
            "no NIC shares a PCIe switch with a GPU; --nics all takes them over the CPUs, or name those "
            "that are used",
        ),
        (
            {"gpus": (gpu(0, 0),), "links": (), "nics": (nic(0, 1),), "bridges": NO_HOST, "host_links": ()},
            {"boxes": 2, "network": "rail"},
            f"no NIC shares a PCIe switch with a GPU, and the file has no PCIe tree; {DUMP}",
        ),
        (
            {"gpus": (gpu(0, 0),), "links": (), "nics": (nic(0, 0),), "bridges": NO_HOST, "host_links": ()},
            {"pcie": PcieDetail.FULL},
            f"does not say what lies between G0 and the CPUs, {NEEDS}; {DUMP}",
        ),
        (
            {"nics": (nic(0, None),)},
            {"boxes": 2, "network": "rail", "nics": "all"},
            f"does not say what lies between n0 and the CPUs, {NEEDS}; {DUMP}",
        ),
        ({}, {"nics": "n0,eth9"}, "--nics: no NIC is called 'eth9'; there are n0, n1, n2"),
        ({"nics": ()}, {"nics": "eth9"}, "--nics: no NIC is called 'eth9'; there are none"),
        ({}, {"nics": "n0, n0"}, "--nics: 'n0' is named twice"),
        (
            {"nics": (nic(0, 2, None),)},
            {"boxes": 2, "network": "rail"},
            "speed of NIC n0 is not in the file; say it by --nic-bandwidth",
        ),
        (
            {"gpus": (*BOX.gpus[:2], gpu(2, None))},
            {"pcie": PcieDetail.FULL},
            f"does not say what lies between G2 and the CPUs, {NEEDS}; {DUMP}",
        ),
        (  # above one GPU and one NIC: without the NIC this switch would be nothing but a piece of the way
            {"bridges": (*TREE[:3], bridge("s1", 1))},
            {"boxes": 2, "network": "rail", "nics": "n1", "pcie": PcieDetail.FULL},
            f"does not say how fast PCIe is, which --pcie full and GPUs without links need; {DUMP}",
        ),
        (
            {"links": BOX.links[:2], "host_links": ()},
            {},
            f"does not say what joins G0 and G2: neither links nor CPUs; {DUMP}",
        ),
    ],
)
def test_what_is_refused(facts: dict[str, Any], options: dict[str, Any], message: str) -> None:
    known = {key: getattr(BOX, key) for key in ("gpus", "links", "nics", "bridges", "host_links")}
    box = Box(**{**known, **facts})
    with pytest.raises(FormatError) as refused:
        made(box, **options)
    assert str(refused.value) == f"box.xml: {message}"


def test_nics_by_name_keep_the_files_order() -> None:
    found = made(boxes=2, network="rail", nics=" n1 ,n0")
    assert found.recognised["used NICs"] == "2: nic0 = n0, nic1 = n1"
    assert made(nics="n0").topology == made().topology


def test_sizes_are_counted_before_boxes_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[tuple[object, ...]] = []
    monkeypatch.setattr(networks, "check_size", lambda *counts: sizes.append(counts))
    made(boxes=5, network="leaf-spine:3,2")
    # of a box: 3 GPUs, 4 links of its tree, 4 bridges, 2 NICs and the switch; 3 links, 1 between CPUs
    assert sizes == [("box", 5 * 14 + 1, 5 * 2 * (14 + 3 + 1)), ("box", 3 + 2, 2 * 3 * 2)]


def test_what_is_recognised_in_words() -> None:
    box = Box(
        gpus=(
            Gpu(name="A", model="h100", generation="sm 90", rank=0, bus_id="1:0.0"),
            Gpu(name="B", generation="sm 90", rank=1),
            Gpu(name="C", model="h100", rank=2),
            Gpu(name="D", model="h100", rank=3),
        ),
        links=(
            GpuLink(gpu=0, other=1, count=3, bandwidth=7 * GB),
            GpuLink(gpu=0, other=2, count=1, bandwidth=2 * GB),
            GpuLink(gpu=1, other=2, count=1, bandwidth=2 * GB),
        ),
        link_word="xGMI",
    )
    assert recognise(box, {}, (), 1, None) == {
        "GPUs": "h100 (sm 90), sm 90, 2 x h100",
        "links": "xGMI: between two GPUs 3 of 2.333333333 GB/s, 2 x between two GPUs 1 of 2 GB/s",
        "switches": "none between GPUs",
        "rank order": "by the file's ranks: gpu0 = 1:0.0, gpu1 = B, gpu2 = C, gpu3 = D",
        "NICs": "none",
        "boxes": "1",
    }
    plain = Box(
        gpus=(Gpu(name="A", bus_id="1:0.0"),), links=(GpuLink(gpu=0, other=None, count=1, bandwidth=1),)
    )
    words = recognise(plain, {}, (), 2, "rail")
    assert (words["switches"], words["rank order"]) == ("NVSwitches, as one", "by bus id: gpu0 = 1:0.0")
    assert (words["used NICs"], words["pairs"], words["boxes"]) == ("0: ", "none", "2, joined by rail")
