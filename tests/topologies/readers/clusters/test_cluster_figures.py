"""Fabrics that files of others describe, by the exact throughput that they allow."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from places import FOREIGN_SAMPLES
from samples.readers.reader_texts import (
    GB,
    IB_LINKS,
    INFRA,
    TACCL,
    TUX,
    TUX_YAML,
    ib_text,
    platform_text,
)
from treadle.errors import FormatError
from treadle.planning import bound, import_topology
from treadle.topologies.readers.imported import Imported


def imported(folder: Path, text: str, **options: Any) -> Imported:
    path = folder / "fabric"
    path.write_text(text)
    return import_topology(path, **options)


def algbw(found: Imported, collective: str = "allgather") -> Fraction:
    return bound(found.topology, collective).algbw


def refusal(folder: Path, text: str, **options: Any) -> str:
    with pytest.raises(FormatError) as caught:
        imported(folder, text, **options)
    return str(caught.value)


@pytest.mark.parametrize(("boxes", "nodes"), [(2, 16), (3, 25)])
def test_taccl_relay(tmp_path: Path, boxes: int, nodes: int) -> None:
    found = imported(tmp_path, TACCL, chunk_size="1MB", boxes=boxes, network="relay:0-1")
    assert found.topology.n_nodes == nodes
    assert algbw(found) == pytest.approx(boxes * GB * 10**3 / 105 / (boxes - 1), rel=1e-8)
    # 400/21 of two boxes, but for what rounding to bytes takes
    assert boxes > 2 or 0 <= Fraction(400 * GB, 21) - algbw(found) < 100


def test_taccl_matrices_have_destinations_as_rows(tmp_path: Path) -> None:
    text = """{"name": "chain", "gpus_per_node": 3, "alpha": 1.5, "links": [[0,0,1],[1,0,0],[0,2,0]],
        "betas": [[0,0,4],[10,0,0],[0,5,0]], "invbws": [[0,0,5],[11,0,0],[0,6,0]]}"""
    found = imported(tmp_path, text, chunk_size=10**6).topology
    links = zip(found.tails.tolist(), found.heads.tolist(), found.bandwidths.tolist(), strict=True)
    assert sorted(links) == [(0, 1, 100 * GB // 1), (1, 2, 200 * GB), (1, 2, 200 * GB), (2, 0, 250 * GB)]
    assert set(found.latencies_ns.tolist()) == {1500}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "say it by --chunk-size"),
        ({"chunk_size": 10**6, "boxes": 2}, "say it by --network"),
        ({"chunk_size": 10**6, "network": "relay:0-1"}, "say it by --boxes"),
        (
            {"chunk_size": 10**6, "boxes": 2, "network": "rail"},
            "expected direct-map or relay:SENDER-RECEIVER",
        ),
        ({"chunk_size": 10**6, "boxes": 2, "network": "relay:0-8"}, "GPUs 0 to 7"),
        ({"chunk_size": 10**6, "boxes": 2, "network": "direct-map"}, "8 senders and 1 NICs"),
        ({"gpu": "v100", "chunk_size": 10**6}, "--gpu means nothing to taccl"),
    ],
)
def test_taccl_asks(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    assert says in refusal(tmp_path, TACCL, **options)


def test_a_taccl_sketch_names_the_options_that_say_the_same(tmp_path: Path) -> None:
    text = '{"nnodes": 2, "internode_sketch": {"strategy": "relay", "internode_conn": {"0": [1]}}}'
    assert refusal(tmp_path, text).endswith("the topology's file with --boxes 2 --network relay:0-1")


@pytest.mark.parametrize(
    ("blocks", "counts", "speeds", "expected"),
    [
        ("Ring, Ring", "4, 8", "80.0, 80.0", Fraction(10240, 31)),
        ("Switch", "8", "400", Fraction(3200, 7)),
        ("FullyConnected", "4", "100", Fraction(400)),
        ("Ring", "32", "80", Fraction(5120, 31)),
        ("Ring", "2", "741.34", Fraction("1482.68")),
        ("Ring, FullyConnected", "1, 3", "5, 10", Fraction(30)),
    ],
)
def test_astra_sim_shapes(tmp_path: Path, blocks: str, counts: str, speeds: str, expected: Fraction) -> None:
    waits = ", ".join("0" for _ in counts.split(","))
    text = f"topology: [{blocks}]\nnpus_count: [{counts}]\nbandwidth: [{speeds}]\nlatency: [{waits}]\n"
    assert algbw(imported(tmp_path, text)) == expected * GB


@pytest.mark.parametrize("text", [TUX, TUX_YAML], ids=["conf", "yaml"])
@pytest.mark.parametrize(("ratio", "expected"), [("1:1", Fraction(160, 3)), ("8:1", Fraction(100, 3))])
def test_slurm(tmp_path: Path, text: str, ratio: str, expected: Fraction) -> None:
    found = imported(tmp_path, text, nic_bandwidth="50GB/s", oversubscription=ratio)
    assert algbw(found) == expected * GB
    assert found.topology.node_names[:3] == ("tux0", "tux1", "tux2")


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        (TUX, {}, "say it by --nic-bandwidth"),
        (TUX, {"nic_bandwidth": GB}, "say it by --oversubscription"),
        (TUX, {"nic_bandwidth": GB, "oversubscription": "8"}, "such as 8:1 or 4:1,2:1; did you mean 8:1?"),
        (TUX, {"nic_bandwidth": GB, "oversubscription": "2.5x"}, "did you mean 2.5:1?"),
        (TUX, {"nic_bandwidth": GB, "oversubscription": "2:1,2:1"}, "switches of 1 level have uplinks"),
        (TUX + "SwitchName=s9 Nodes=tux3", {"nic_bandwidth": GB}, ":7: node 'tux3' is named twice"),
        (TUX + "SwitchName=s9 Switches=s4,s9", {"nic_bandwidth": GB}, "switch 's9' is below itself"),
        (TUX + "SwitchName=s9 Switches=s0", {"nic_bandwidth": GB}, "below both s4 and s9"),
        (
            TUX + "SwitchName=s9 Switches=s7",
            {"nic_bandwidth": GB},
            "switch 's7' is below s9, but has no line",
        ),
        ("SwitchName=s Nodes=a[0-999999999]", {}, "describes 1000000000 nodes; at most 65536 are read"),
        ("SwitchName=s Nodes=a[0-9]b[0-99999]", {}, "describes 1000000 nodes"),
        ("SwitchName=s Nodes=a[3-1]", {}, "expected rising ranges, found [3-1]"),
        ("SwitchName=s Nodes=a[1", {}, "do not match"),
        ("BlockName=b Nodes=a[1-2]", {}, "only trees are read"),
        ("- topology: x\n  block: {}\n", {}, "no topology has a tree"),
    ],
)
def test_slurm_refuses(tmp_path: Path, text: str, options: dict[str, Any], says: str) -> None:
    assert says in refusal(tmp_path, text, **options)


@pytest.mark.parametrize(
    ("topology", "shape", "hosts", "more", "expected"),
    [
        ("FAT_TREE", "2;4,4;1,2;1,2", 16, "", Fraction(400, 3)),
        ("FAT_TREE", "1;4;1;1", 4, "", Fraction(500, 3)),
        ("TORUS", "3,2,2", 12, "", Fraction(9000, 11)),
        ("TORUS", "5", 5, "", Fraction(1250, 4)),
        ("TORUS", "1,4", 4, "", Fraction(1000, 3)),
        ("FLAT", "", 5, "", Fraction(625, 4)),
        ("FLAT", "", 5, 'limiter_link="100MBps"', Fraction(125)),
        ("FLAT", "", 5, 'bb_bw="625MBps"', Fraction(625, 4)),
        ("DRAGONFLY", "3,4;4,3;5,1;2", 120, 'limiter_link="150MBps"', Fraction(15000, 119)),
    ],
)
def test_simgrid(
    tmp_path: Path, topology: str, shape: str, hosts: int, more: str, expected: Fraction
) -> None:
    found = imported(tmp_path, platform_text(topology, shape, hosts, more))
    assert algbw(found) == expected * 10**6
    assert found.topology.node_names[:2] == ("node-0.example.org", "node-1.example.org")
    assert set(found.topology.latencies_ns.tolist()) <= {0, 50_000}


def test_simgrids_dragonfly_has_the_links_of_its_manual(tmp_path: Path) -> None:
    topology = imported(tmp_path, platform_text("DRAGONFLY", "3,4;4,3;5,1;2", 120)).topology
    names = topology.node_names
    counts: dict[tuple[str, str], int] = {}
    for tail, head in zip(topology.tails, topology.heads, strict=True):
        counts[names[tail], names[head]] = counts.get((names[tail], names[head]), 0) + 1
    green = counts["group1.chassis2.router0", "group1.chassis2.router4"]
    black = counts["group1.chassis0.router3", "group1.chassis3.router3"]
    blue = counts["group2.chassis0.router1", "group1.chassis0.router2"]
    assert (green, black, blue) == (1, 3, 4)
    assert ("group1.chassis0.router3", "group1.chassis3.router4") not in counts
    assert topology.n_links == 2 * (120 + 12 * 10 + 3 * 3 * 6 * 5 + 4 * 3)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('topology="FAT_TREE"', 'topology="VIVALDI"', "expected one of FLAT, FAT_TREE, TORUS, DRAGONFLY"),
        ("2;4,4;1,2;1,2", "2;4,3;1,2;1,2", "is of 12 hosts, radical of 16"),
        ("2;4,4;1,2;1,2", "2;4,4;1,2", "expected 4 parts"),
        ("0-15", "0-99999999", "describes 100000000 nodes"),
        ("125MBps", "125MB", "expected a bandwidth such as 125MBps"),
        ('lat="50us"', 'lat="50parsec"', "expected a time such as 50us"),
        (
            'bw="125MBps"',
            'bw="125MBps" sharing_policy="SHARED"',
            "only SPLITDUPLEX is a link in each direction",
        ),
        ("<!-- a cluster -->", '<host id="a" speed="1Gf"/>', "is not read beside a <cluster>"),
        ('simgrid.dtd">', 'simgrid.dtd" [<!ENTITY a "b">]>', "declarations of its own"),
        ('id="c"', "", "lacks the attribute id"),
        ('topology="FAT_TREE"', 'topology="FLAT" bb_bw="1999MBps"', "is not a graph"),
        (
            'topology="FAT_TREE"',
            'topology="FAT_TREE" limiter_link="9MBps"',
            "switches of a fat tree have it too",
        ),
    ],
)
def test_simgrid_refuses(tmp_path: Path, old: str, new: str, says: str) -> None:
    text = platform_text("FAT_TREE", "2;4,4;1,2;1,2", 16)
    assert old in text
    assert says in refusal(tmp_path, text.replace(old, new))


def test_infragraph_of_devices_that_are_not_described(tmp_path: Path) -> None:
    """How many components they have only slices can say."""
    text = INFRA.replace("device: tor,", "device: tors,")
    found = imported(tmp_path, text)
    whole = imported(tmp_path, INFRA).topology
    assert (found.topology.node_names, found.topology.n_links) == (whole.node_names, whole.n_links)
    assert "device tors is not in the file" in str(found.warnings[0])
    for part in ("port", '"port[0:]"', "7", '"port[0"'):
        without = text.replace('component: "port[0:4]"', f"component: {part}")
        assert "ep2: device 'tors' is not in the file" in refusal(tmp_path, without)
    one = text.replace("scheme: one2one\n    link: eth", "scheme: many2many\n    link: eth")
    one = one.replace('"port[0:4]"', '"port[3]"')
    assert len(imported(tmp_path, one).topology.node_names) == len(whole.node_names)


def test_infragraph_in_json_is_the_same(tmp_path: Path) -> None:
    import yaml

    text = json.dumps(yaml.safe_load(INFRA))
    assert imported(tmp_path, text).topology == imported(tmp_path, INFRA).topology


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("gigabytes_per_second: 450", "gigabytes_per_second: x", "expected a number"),
        (
            "{choice: gigabytes_per_second, gigabytes_per_second: 450}",
            "{choice: gigatransfers_per_second, gigatransfers_per_second: 32}",
            "links nvlink have no bandwidth; say it by --bandwidth",
        ),
        ("link: nvlink", "link: nvlinks", "link 'nvlinks' is used but not described"),
        ('"xpu[0:4]"', '"xpu[0:3]"', "one2one joins 3 endpoints with 4"),
        ('"xpu[0:4]"', '"xpu[0:5]"', "leaves the 4 that there are"),
        ("name: xpu, choice: xpu, count: 4", "name: xpu, choice: xpu, count: 70000", "from 1 to 65536"),
        ("device: server, count: 2", "device: server, count: 60000", "describes 660009 nodes"),
        ("name: xpu, choice: xpu", "name: xpu, choice: device", "devices within devices are not read"),
        ("scheme: many2many, link: nvlink", "scheme: ring, link: nvlink", "expected one2one or many2many"),
        ('"xpu[0:4]"', '"xpu[4:4]"', "leaves the 4 that there are"),
        ('"xpu[0:4]"', '"xpu[0:4:0]"', "leaves the 4 that there are"),
        ('"xpu[0:4]"', '"xpu[0:4:2]"', "one2one joins 2 endpoints with 4"),
        ('"xpu[0:4]"', '"xpu[]"', "expected a slice such as [0:4]"),
        ('"xpu[0:4]"', '"gpu[0:4]"', "there is no 'gpu'"),
        (
            "ep1: {component: xpu}",
            "ep1: {component: xpu, device: tor}",
            "devices within devices are not read",
        ),
        ("name: nic, choice: nic", "name: xpu, choice: nic", "component 'xpu' is named twice"),
        ("- name: pcie", "- name: nvlink", "link 'nvlink' is described twice"),
        ("- name: tor", "- name: server", "device 'server' is described twice"),
        ("name: rail, device: tor", "name: host, device: tor", "'host' is named twice"),
    ],
)
def test_infragraph_refuses(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in INFRA
    assert says in refusal(tmp_path, INFRA.replace(old, new, 1))


def test_infragraph_takes_a_bandwidth_for_links_without(tmp_path: Path) -> None:
    text = INFRA.replace(
        "physical: {bandwidth: {choice: gigabits_per_second, gigabits_per_second: 400}}", "description: fast"
    )
    assert algbw(imported(tmp_path, text, bandwidth="50GB/s")) == 400 * GB


@pytest.mark.parametrize(
    ("bandwidth", "latency"),
    [
        ("gigabits_per_second: 3600", "us: 0.5"),
        ("gigabytes_per_second: 450", "ns: 500"),
        ("giga_bits_per_second: 3600", "ms: 0.0005"),
        ("giga_bytes_per_second: 450", "us: 0.5"),
    ],
)
def test_infragraph_units(tmp_path: Path, bandwidth: str, latency: str) -> None:
    old = "physical: {bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 450}}"
    assert old in INFRA
    speed, wait = (f"{{choice: {row.partition(':')[0]}, {row}}}" for row in (bandwidth, latency))
    topology = imported(
        tmp_path, INFRA.replace(old, f"physical: {{bandwidth: {speed}, latency: {wait}}}")
    ).topology
    assert set(topology.latencies_ns[topology.bandwidths == 450 * GB].tolist()) == {500}


def test_ibnetdiscover_without_speeds_asks(tmp_path: Path) -> None:
    assert "ports have no speed; say it by --bandwidth" in refusal(tmp_path, ib_text(rate=""))
    found = imported(tmp_path, ib_text(rate=""), bandwidth="25GB/s")
    assert algbw(found) == 30 * GB
    assert "take --bandwidth" in str(found.defaulted[0])


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (" 4xHDR", " 4xABC", "speed '4xABC' is unknown"),
        (" 4xHDR", " 4xEDR", "the other end has another speed"),
        ('[1]\t"H-0000"', '[2]\t"H-0000"', "port 2 stands here a second time"),
        ('[1]\t"H-0000"', '[77]\t"H-0000"', "port 77 of 41 does not exist"),
        ('"H-0000"[1](0000)', '"H-0000"[3](0000)', "leads elsewhere"),
        ('"H-0000"[1](0000)', '"H-7777"[1](0000)', "which is not in the file"),
        ('"S-a001"\t\t#', '"S-a000"\t\t#', "stands here a second time"),
        ("vendid=0x2c9", "vendid=0x2c9\nhello", "expected a node, a port or a comment"),
    ],
)
def test_ibnetdiscover_refuses(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in ib_text()
    assert says in refusal(tmp_path, ib_text().replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("25.78125", "26.0", "unknown speed"),
        ("4X  ", "5X  ", "unknown speed"),
        ("Active/  LinkUp", "Initialize/  LinkUp", "expected an active port"),
        ("7    1[  ] ==(", "7    9[  ] ==(", ":2: port 1 of LID 7 is not in the file"),
        ("7    2[  ] ==(", "7    1[  ] ==(", ":10: port 1 of LID 7 stands here a second time"),
        ('11    1[  ] "n0', '12    2[  ] "n0', "leads elsewhere"),
        ("CA: n0 HCA-1:\n", "", ":1: expected a node and its ports"),
        ("CA: n1 HCA-1:", "CA n1 HCA-1:", ":4: expected a node and its ports"),
        (
            "53.125 Gbps Active/  LinkUp)==>      13",
            "106.25 Gbps Active/  LinkUp)==>      13",
            "another speed",
        ),
    ],
)
def test_iblinkinfo_refuses(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in IB_LINKS
    assert says in refusal(tmp_path, IB_LINKS.replace(old, new, 1))


@pytest.mark.skipif(not FOREIGN_SAMPLES.is_dir(), reason="no files of others beside the checkout")
def test_samples_of_others() -> None:
    fabric = import_topology(FOREIGN_SAMPLES / "ibnetdiscover_example.out")
    topology = fabric.topology
    assert (len(topology.switches), len(topology.compute_nodes), topology.n_links) == (40, 542, 2148)
    assert fabric.recognised["SHARP"].startswith("40 ")
    assert fabric.recognised["components"] == "1"
    assert "69 HCAs do not name their host" in str(fabric.warnings[0])
    assert algbw(fabric) == Fraction(27100, 541) * GB
    assert algbw(import_topology(FOREIGN_SAMPLES / "astrasim_hgx_h100_16gpu.yml")) == 480 * GB
    box = import_topology(FOREIGN_SAMPLES / "taccl_topo-ndv2-1MB.json", chunk_size="1MB")
    assert float(algbw(box)) / GB == pytest.approx(149.068, abs=5e-4)
    with pytest.raises(FormatError, match="--boxes 2 --network relay:0-1"):
        import_topology(FOREIGN_SAMPLES / "taccl_sk1-ndv2-n2.json")
