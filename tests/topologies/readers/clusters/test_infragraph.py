"""InfraGraph's infrastructures link by link, in both generations, and every refusal in full."""

from __future__ import annotations

import json
from typing import Any

import pytest

from treadle.errors import FormatError
from treadle.topologies.readers.clusters import infra_endpoints, infragraph
from treadle.topologies.readers.imported import Finding, Imported, ImportOptions, SourceFile
from treadle.topologies.topology import Topology


def speed(gigabytes: float, **latency: float) -> dict[str, Any]:
    found: dict[str, Any] = {
        "bandwidth": {"choice": "gigabytes_per_second", "gigabytes_per_second": gigabytes}
    }
    for unit, amount in latency.items():
        found["latency"] = {"choice": unit, unit: amount}
    return found


def component(name: str, kind: str, count: int = 1) -> dict[str, Any]:
    return {"name": name, "choice": kind, "count": count}


def edge(one: str, other: str, link: str, scheme: str = "many2many") -> dict[str, Any]:
    """Ends such as ``xpu`` within a device, ``host[0]/nic`` between instances."""

    def end(text: str) -> dict[str, str]:
        instance, _, part = text.rpartition("/")
        return {"component": part} | ({"instance": instance} if instance else {})

    return {"ep1": end(one), "ep2": end(other), "link": link, "scheme": scheme}


HOST = {
    "name": "server",
    "components": [
        component("xpu", "xpu", 2),
        component("hub", "switch"),
        component("nic", "nic", 2),
        component("cpu", "cpu"),
    ],
    "links": [{"name": "fast", "physical": speed(9, ns=3)}, {"name": "pcie", **speed(2, us=0.5)}],
    "edges": [
        edge("xpu", "hub", "fast"),
        edge("xpu[0:2]", "nic", "pcie", "one2one"),
        edge("cpu", "hub[0]", "pcie"),
    ],
}
TOR = {"name": "tor", "components": [component("port", "port", 4)], "links": [], "edges": []}
FABRIC: dict[str, Any] = {
    "name": "odd",
    "devices": [HOST, TOR],
    "links": [{"name": "eth", "physical": speed(1)}, {"name": "slow", "physical": {}}],
    "instances": [
        {"name": "host", "device": "server", "count": 2},
        {"name": "leaf", "device": "tor", "count": 2},
    ],
    "edges": [
        edge("host[0]/nic", "leaf[0]/port[0:2]", "eth", "one2one"),
        edge("host[1]/nic[1]", "leaf/port[3]", "eth"),
    ],
}


def read(document: Any, *, name: str = "i.json", **options: Any) -> Imported:
    text = document if isinstance(document, str) else json.dumps(document)
    return infragraph.read(SourceFile(text, name), ImportOptions(**options))


def cables(topology: Topology) -> list[tuple[str, str, int, int]]:
    names = topology.node_names
    columns = (topology.tails, topology.heads, topology.bandwidths, topology.latencies_ns)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    assert [(head, tail, *more) for tail, head, *more in rows[::2]] == rows[1::2]
    return [(names[tail], names[head], *more) for tail, head, *more in rows[::2]]


GB = 10**9


def test_devices_of_edges() -> None:
    """What hangs at one node only is left out: the CPUs, and the NIC that no cable joins."""
    found = read(FABRIC)
    inner = [
        (f"host.{k}.{one}", f"host.{k}.{other}", rate * GB, wait)
        for k in range(2)
        for one, other, rate, wait in (
            ("xpu.0", "hub.0", 9, 3),
            ("xpu.1", "hub.0", 9, 3),
            ("xpu.0", "nic.0", 2, 500),
            ("xpu.1", "nic.1", 2, 500),
        )
    ]
    inner.remove(("host.1.xpu.0", "host.1.nic.0", 2 * GB, 500))
    outer = [
        ("host.0.nic.0", "leaf.0", GB, 0),
        ("host.0.nic.1", "leaf.0", GB, 0),
        ("host.1.nic.1", "leaf.0", GB, 0),
    ]
    assert cables(found.topology) == inner + outer
    assert (found.format, found.topology.name) == ("infragraph", "odd")
    assert found.recognised == {
        "ranks": "4 XPUs",
        "switches": "6 switches and other components",
        "links": "20 directed",
        "rank order": "instances and components in the order of the file",
    }
    assert found.warnings == (Finding("4 components that lead nowhere are left out"),)
    assert found.defaulted == ()


def test_connections_in_dotted_lines() -> None:
    """Indices may have zeros in front; counts are those that the lines use."""
    lines = ["a.0.nic.00.eth.sw.0.port.1", "a.2.nic.1.eth.sw.00.port.2", "a.1.nic.0.eth.sw.0.port.3"]
    document = {
        "infrastructure": {
            "links": [{"name": "eth", **speed(3, ms=0.001)}],
            "instances": [{"name": "a", "device": "box"}, {"name": "sw", "device": "switch"}],
            "connections": lines,
        }
    }
    found = read(document, name="dir/infra.json")
    assert cables(found.topology) == [(f"a.{k}", "sw.0", 3 * GB, 1000) for k in (0, 2, 1)]
    assert found.topology.name == "infra"
    assert found.recognised["ranks"] == "3 instances"
    told = "is not in the file; its instances are taken as"
    assert found.warnings == (
        Finding(f"device box {told} ranks, since their links begin at a nic", "instances a"),
        Finding(f"device switch {told} switches", "instances sw"),
    )


def test_connections_within_a_device() -> None:
    device = {
        "name": "server",
        "components": [{"name": "x", "type": "xpu"}, {"name": "s", "choice": "switch"}],
        "links": [{"name": "l", **speed(1)}],
        "connections": ["x.0.l.s.0", "x.1.l.s.0", "x.02.l.s.0"],
    }
    found = read({"devices": [device], "instances": [{"name": "i", "device": "server"}]})
    assert cables(found.topology) == [(f"i.0.x.{k}", "i.0.s.0", GB, 0) for k in range(3)]


def test_ends_of_both_sides_meet_once() -> None:
    device = {**HOST, "edges": [edge("xpu", "xpu", "fast"), edge("xpu[0]", "xpu", "pcie")]}
    found = read({"devices": [device], "instances": [{"name": "i", "device": "server"}]})
    assert cables(found.topology) == [
        ("i.0.xpu.0", "i.0.xpu.1", 9 * GB, 3),
        ("i.0.xpu.0", "i.0.xpu.1", 2 * GB, 500),
    ]
    same = {**HOST, "edges": [edge("xpu", "xpu", "fast", "one2one"), edge("xpu[0]", "xpu[1]", "pcie")]}
    once = read({"devices": [same], "instances": [{"name": "i", "device": "server"}]})
    assert cables(once.topology) == [("i.0.xpu.0", "i.0.xpu.1", 2 * GB, 500)]


def test_links_without_a_bandwidth_take_that_of_the_option() -> None:
    slow = {**FABRIC, "edges": [FABRIC["edges"][0], edge("host[1]/nic[1]", "leaf/port[3]", "slow")]}
    with pytest.raises(FormatError) as refused:
        read(slow)
    assert str(refused.value) == "i.json: links slow have no bandwidth; say it by --bandwidth"
    found = read(slow, bandwidth=7)
    assert cables(found.topology)[-1] == ("host.1.nic.1", "leaf.0", 7, 0)
    assert found.defaulted == (Finding("links slow take --bandwidth"),)


@pytest.mark.parametrize(
    ("text", "picked"),
    [
        ("nic", [0, 1, 2, 3, 4]),
        ("nic[2]", [2]),
        ("nic[1:3]", [1, 2]),
        ("nic[:2]", [0, 1]),
        ("nic[3:]", [3, 4]),
        ("nic[:]", [0, 1, 2, 3, 4]),
        ("nic[0:5:2]", [0, 2, 4]),
        ("nic[1:4:3]", [1]),
    ],
)
def test_slices(text: str, picked: list[int]) -> None:
    words = infra_endpoints._Words(SourceFile("", "f"))
    name, places = infra_endpoints._indices(words, text, "p", {"nic": 5})
    assert (name, list(places)) == ("nic", picked)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu[0]", "p: there is no 'gpu'"),
        ("nic[5]", "p: 'nic[5]' leaves the 5 that there are"),
        ("nic[2:2]", "p: 'nic[2:2]' leaves the 5 that there are"),
        ("nic[0:6]", "p: 'nic[0:6]' leaves the 5 that there are"),
        ("nic[0:3:0]", "p: 'nic[0:3:0]' leaves the 5 that there are"),
        ("nic[]", "p: expected a slice such as [0:4], found 'nic[]'"),
        ("nic[a]", "p: expected a name with a slice such as nic[0:4], found 'nic[a]'"),
        (3, "p: expected a name with a slice such as nic[0:4], found '3'"),
    ],
)
def test_slices_that_are_refused(text: Any, message: str) -> None:
    words = infra_endpoints._Words(SourceFile("", "f"))
    with pytest.raises(FormatError) as refused:
        infra_endpoints._indices(words, text, "p", {"nic": 5})
    assert str(refused.value) == f"f: {message}"


def changed(path: list[Any], value: Any) -> Any:
    document = json.loads(json.dumps(FABRIC))
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return document


KNOWN = "known are annotations, connections, description, devices, edges, instances, links, name"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["colour"], 1, f"infrastructure: unknown key 'colour'; {KNOWN}"),
        (["devices"], 3, "devices: expected a list, found '3'"),
        (["devices", 0], 3, "devices[0]: expected a mapping, found '3'"),
        (["devices", 1, "name"], "server", "devices[1]: device 'server' is described twice"),
        (["devices", 0, "name"], "a b", "devices[0].name: expected letters, digits, _ and -, found 'a b'"),
        (["devices", 0, "name"], "", "devices[0].name: expected text, found ''"),
        (
            ["devices", 0, "components", 1, "name"],
            "xpu",
            "devices[0].components[1]: component 'xpu' is named twice",
        ),
        (
            ["devices", 0, "components", 1, "count"],
            0,
            "devices[0].components[1].count: expected an integer from 1 to 65536, found '0'",
        ),
        (
            ["devices", 0, "components", 1, "choice"],
            "fan",
            "devices[0].components[1]: expected a choice of cpu, custom, device, memory, nic, port, switch, "
            "xpu, found 'fan'",
        ),
        (
            ["devices", 0, "components", 1, "choice"],
            "device",
            "instances host: devices within devices are not read; write server out",
        ),
        (["devices", 0, "links", 1, "name"], "fast", "devices[0].links[1]: link 'fast' is described twice"),
        (["devices", 0, "edges", 0, "link"], "", "devices[0].edges[0].link: expected text, found ''"),
        (["devices", 0, "edges", 0, "link"], "warp", "link 'warp' is used but not described"),
        (
            ["devices", 0, "edges", 0, "scheme"],
            "ring",
            "devices[0].edges[0].scheme: expected one2one or many2many, found 'ring'",
        ),
        (["devices", 0, "edges", 0, "ep1"], 3, "devices[0].edges[0].ep1: expected a mapping, found '3'"),
        (
            ["devices", 0, "edges", 0, "ep2", "device"],
            "tor",
            "devices[0].edges[0].ep2: devices within devices are not read; write the device out",
        ),
        (
            ["devices", 0, "edges", 1, "ep2", "component"],
            "nic[0]",
            "devices[0].edges[1]: one2one joins 2 endpoints with 1",
        ),
        (["instances"], [], "has no instances; a library of devices is no fabric"),
        (["instances", 1, "name"], "host", "instances[1]: 'host' is named twice"),
        (
            ["instances", 0, "count"],
            65537,
            "instances[0].count: expected an integer from 1 to 65536, found '65537'",
        ),
        (["instances", 0, "device"], 3, "instances[0].device: expected text, found '3'"),
        (["instances", 0, "count"], 20000, "describes 120008 nodes; at most 65536 are read"),
        (["name"], "a\nb", "name: expected one line without control characters"),
        (["edges", 0, "ep1", "instance"], "box[0]", "edges[0].ep1.instance: there is no 'box'"),
        (["edges", 1, "link"], "none", "link 'none' is used but not described"),
        (["connections"], ["host.0.nic.9.eth.leaf.0.port.0"], "connections[0]: there is no host.0.nic.9"),
        (
            ["connections"],
            ["host.0.nic"],
            "connections[0]: expected a connection such as server.0.nic.0.eth.leaf.0.port.1, "
            "found 'host.0.nic'",
        ),
        (
            ["devices", 0, "connections"],
            ["xpu.0"],
            "devices[0].connections[0]: expected a connection such as xpu.0.pcie.nic.0, found 'xpu.0'",
        ),
        (["devices", 0, "connections"], ["xpu.7.fast.hub.0"], "devices[0].connections[0]: there is no xpu.7"),
        (
            ["links", 0, "physical", "bandwidth", "choice"],
            "bytes",
            "link eth.bandwidth: expected a choice of gigabits_per_second, gigabytes_per_second, "
            "giga_bits_per_second, giga_bytes_per_second, and its value, found 'bytes'",
        ),
        (
            ["devices", 0, "links", 0, "physical", "latency"],
            {"choice": "us"},
            "link fast.latency: expected a choice of ms, us, ns, and its value, found 'us'",
        ),
    ],
)
def test_what_is_refused(path: list[Any], value: Any, message: str) -> None:
    with pytest.raises(FormatError) as refused:
        read(changed(path, value))
    assert str(refused.value) == f"i.json: {message}"


def test_fabrics_without_ranks_are_refused() -> None:
    lone = {"devices": [TOR], "instances": [{"name": "leaf", "device": "tor"}]}
    with pytest.raises(FormatError) as refused:
        read(lone)
    assert (
        str(refused.value)
        == "i.json: no device has a component of type xpu, and none that is missing has a nic"
    )
    one = {
        **HOST,
        "components": [component("xpu", "xpu"), component("hub", "switch")],
        "edges": [edge("xpu", "hub", "fast")],
    }
    with pytest.raises(FormatError) as refused:
        read({"devices": [one], "instances": [{"name": "i", "device": "server"}]})
    assert str(refused.value) == "i.json: has 1 ranks; a fabric has at least 2"
    with pytest.raises(FormatError, match="infrastructure: expected a mapping, found 'None'"):
        read("- 3\n", name="i.yaml")
    with pytest.raises(FormatError) as refused:
        read(
            {
                "links": [],
                "instances": [{"name": "a", "device": "x"}],
                "connections": ["a.0.gpu.0.l.a.1.gpu.0"],
            }
        )
    assert str(refused.value) == "i.json: instances a: device 'x' is not in the file"


def test_sizes_are_counted_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[dict[str, int]] = []
    monkeypatch.setattr(infragraph, "check_import_size", lambda _, **counts: sizes.append(counts))
    read(FABRIC)
    # of a host 6 nodes and 2 + 2 + 1 links, of a leaf 4 ports; 2 and 2 links between
    assert sizes == [{"nodes": 2 * 6 + 2 * 4}, {"links": 2 * 4 + 2 * 2 * 5}]
