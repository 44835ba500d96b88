"""What joins boxes: one switch, rails, leaves and spines."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from samples.box_files import nccl_xml
from treadle import planning
from treadle.errors import FormatError
from treadle.topologies import Topology
from treadle.topologies.readers.boxes import networks
from treadle.topologies.readers.boxes.box import BridgeKind
from treadle.topologies.readers.imported import Finding, ImportOptions, SourceFile

GB = 10**9


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """Four A100; NICs of 12.5 GB/s."""
    path = tmp_path / "box.xml"
    path.write_text(nccl_xml(nic_mbit_per_s=100000))
    return path


def fabric(box: Path, boxes: int, network: str) -> Topology:
    return planning.import_topology(box, boxes=boxes, network=network).topology


def ends(topology: Topology, prefix: str) -> dict[str, set[str]]:
    """Switches with a prefix, and what hangs from each."""
    found: dict[str, set[str]] = {}
    for tail, head in zip(topology.tails, topology.heads, strict=True):
        name = topology.node_names[head]
        if name.startswith(prefix):
            found.setdefault(name, set()).add(topology.node_names[tail])
    return found


def test_one_switch_joins_all_nics(box: Path) -> None:
    (members,) = ends(fabric(box, 3, "one-switch"), "ib").values()
    assert members == {f"box{b}.nic{k}" for b in range(3) for k in range(4)}


def test_rails_join_nics_of_a_number(box: Path) -> None:
    rails = ends(fabric(box, 3, "rail"), "ib")
    assert rails == {f"ib{k}": {f"box{b}.nic{k}" for b in range(3)} for k in range(4)}
    halves = ends(fabric(box, 2, "rails:2"), "ib")
    assert halves["ib1"] == {"box0.nic1", "box0.nic3", "box1.nic1", "box1.nic3"}


def test_leaves_take_boxes_in_order_and_share_their_uplinks(box: Path) -> None:
    """Five boxes of 50 GB/s on two leaves: three and two; two spines, 2:1."""
    topology = fabric(box, 5, "leaf-spine:2,2,2")
    leaves = ends(topology, "leaf")
    assert {name.partition(".")[0] for name in leaves["leaf0"]} == {
        "box0",
        "box1",
        "box2",
        "spine0",
        "spine1",
    }
    uplinks = {
        topology.link_name(link): int(topology.bandwidths[link])
        for link in range(topology.n_links)
        if topology.link_name(link).endswith(("->spine0", "->spine1"))
    }
    assert uplinks == {
        "leaf0->spine0": 3 * 50 * GB // 4,
        "leaf0->spine1": 3 * 50 * GB // 4,
        "leaf1->spine0": 2 * 50 * GB // 4,
        "leaf1->spine1": 2 * 50 * GB // 4,
    }
    bound = planning.bound(fabric(box, 4, "leaf-spine:2,1,4"), "allgather").bound
    assert (
        Fraction(bound.algbw) == 16 * Fraction(2 * 50, 4) / 8 * GB
    )  # a leaf's uplink takes half of all shards


def test_names_say_what_they_are(box: Path) -> None:
    assert fabric(box, 2, "rail").name == "box, 2 boxes, rail"
    assert planning.import_topology(box).topology.name == "box"
    assert planning.import_topology(box, boxes=1, network="rail").topology.name == "box"
    found = planning.import_topology(box, boxes=2, network="rail", links="library", pcie="full").topology
    assert found.name == "box, 2 boxes, rail, library's speeds, all of PCIe"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"boxes": 2, "network": "rails:5"}, "a box has 4 NICs, expected 1 to 4 rails"),
        ({"boxes": 2, "network": "rails:0"}, "a box has 4 NICs"),
        ({"boxes": 2, "network": "rails"}, "--network 'rails': expected one-switch, rail, rails:K or leaf"),
        ({"boxes": 2, "network": "leaf-spine:3,1"}, "expected 1 to 2 leaves"),
        ({"boxes": 2, "network": "leaf-spine:1,0"}, "at least one spine"),
        ({"boxes": 2, "network": "leaf-spine:1,1,0"}, "an oversubscription of at least 1"),
        ({"boxes": 2, "network": "rail", "nics": "mlx5_1,mlx5_1"}, "'mlx5_1' is named twice"),
        ({"nics": "eth0"}, "no NIC is called 'eth0'"),
    ],
)
def test_what_does_not_fit_a_box_is_refused(box: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(FormatError, match=says):
        planning.import_topology(box, **options)


def test_a_fabric_has_a_largest_size(box: Path) -> None:
    with pytest.raises(FormatError, match=r"this would be [0-9]+ nodes, the catalogue builds at most"):
        fabric(box, 10**6, "one-switch")


SOURCE = SourceFile("", "some/box.xml")


class Joined:
    """A builder that notes links."""

    def __init__(self) -> None:
        self.switches: list[str] = []
        self.links: list[tuple[str, str, int]] = []

    def switch(self, name: str) -> str:
        self.switches.append(name)
        return name

    def duplex(self, one: str, other: str, bandwidth: int) -> None:
        self.links.append((one, other, bandwidth))


def joined(network: str, boxes: int, speeds: Sequence[int] = (3, 5, 7)) -> Joined:
    """Boxes whose NICs are b0n0, b0n1 and so on."""
    builder: Any = Joined()
    ports = [[f"b{box}n{nic}" for nic in range(len(speeds))] for box in range(boxes)]
    networks._join(SOURCE, builder, ports, speeds, network)
    return builder  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("network", "switches"), [("one-switch", 1), ("rail", 3), ("rails:1", 1), ("rails:2", 2), ("rails:3", 3)]
)
def test_nics_go_to_their_rails_at_their_speeds(network: str, switches: int) -> None:
    found = joined(network, 2)
    assert found.switches == [f"ib{rail}" for rail in range(switches)]
    assert found.links == [
        (f"b{box}n{nic}", f"ib{nic % switches}", speed)
        for box in range(2)
        for nic, speed in enumerate((3, 5, 7))
    ]


def test_leaves_have_their_boxes_and_uplinks() -> None:
    """Boxes of 15 bytes/s: two on the first leaf of two, one on the other; a third of that for two spines."""
    found = joined("leaf-spine:2,2,3:1", 3)
    assert found.switches == ["spine0", "spine1", "leaf0", "leaf1"]
    up = [[(f"leaf{leaf}", f"spine{spine}", width) for spine in range(2)] for leaf, width in ((0, 5), (1, 2))]
    down = [[(f"b{box}n{nic}", f"leaf{box // 2}", (3, 5, 7)[nic]) for nic in range(3)] for box in range(3)]
    assert found.links == [*down[0], *down[1], *up[0], *down[2], *up[1]]
    assert joined("leaf-spine:2,3", 2).links[3] == ("leaf0", "spine0", 5)
    assert joined("leaf-spine:1,2", 1, (2,)).links[1:] == [("leaf0", f"spine{n}", 1) for n in range(2)]
    assert len(joined("leaf-spine:1,65536", 1, (10**6,)).switches) == 65537


@pytest.mark.parametrize(
    ("network", "boxes", "said"),
    [
        ("rails:4", 2, "a box has 3 NICs, expected 1 to 3 rails"),
        ("rails:0", 2, "a box has 3 NICs, expected 1 to 3 rails"),
        *(
            (
                network,
                2,
                "expected 1 to 2 leaves (there are 2 boxes), at least one spine and an oversubscription of "
                "at least 1",
            )
            for network in (
                *("leaf-spine:3,1", "leaf-spine:0,1", "leaf-spine:1,0"),
                *("leaf-spine:1,65537", "leaf-spine:1,1,0"),
            )
        ),
        ("leaf-spine:2,8,2", 2, "less than 1 byte/s is left for an uplink"),
    ],
)
def test_networks_beyond_their_limits(network: str, boxes: int, said: str) -> None:
    with pytest.raises(FormatError) as caught:
        joined(network, boxes)
    assert str(caught.value) == f"some/box.xml: --network {network}: {said}"


KNOWN = "one-switch, rail, rails:K or leaf-spine:L,S[,over]"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"boxes": 3}, f"the file describes one box; say by --network what joins 3: {KNOWN}"),
        ({"network": "rail"}, "--network joins several boxes; say by --boxes how many there are"),
        ({"network": "rail:4"}, f"--network 'rail:4': expected {KNOWN}; did you mean rails:4?"),
        (
            {"network": "Rails:123456"},
            f"--network 'Rails:123456': expected {KNOWN}; did you mean rails:123456?",
        ),
        ({"network": "one_switch"}, f"--network 'one_switch': expected {KNOWN}; did you mean one-switch?"),
        ({"network": f"x{'y' * 60}"}, f"--network 'x{'y' * 39}': expected {KNOWN}"),
    ],
)
def test_how_many_boxes_and_what_joins_them_is_said(options: dict[str, Any], said: str) -> None:
    with pytest.raises(FormatError) as caught:
        networks._count_boxes(SOURCE, ImportOptions(**options))
    assert str(caught.value) == f"some/box.xml: {said}"


def nics(*names: str, tree: bool = False) -> Any:
    """A box with these NICs; of 5 bytes/s but for the last, whose speed nobody knows."""
    speeds = [*[5] * (len(names) - 1), None]
    listed = [SimpleNamespace(name=name, bandwidth=speed) for name, speed in zip(names, speeds, strict=True)]
    kinds = [BridgeKind.SWITCH, *([BridgeKind.HOST] if tree else [])]
    return SimpleNamespace(nics=listed, bridges=[SimpleNamespace(kind=kind) for kind in kinds])


def test_nics_that_share_a_switch_with_a_gpu_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "near_nics", lambda box, every: [nic for nic in every if nic % 2])
    for tree, more in ((False, ""), (True, "; --nics all takes it")):
        warnings: list[Finding] = []
        box = nics("a", "b", "c", tree=tree)
        assert networks._choose_nics(SOURCE, box, ImportOptions(), warnings) == [1]
        text = f"shares no PCIe switch with a GPU and is left out{more}"
        assert warnings == [Finding(text, "a"), Finding(text, "c")]
        assert networks._choose_nics(SOURCE, box, ImportOptions(nics="all"), warnings) == [0, 1, 2]
        assert networks._choose_nics(SOURCE, box, ImportOptions(nics=" c,a"), warnings) == [0, 2]
    monkeypatch.setattr(networks, "near_nics", lambda box, every: [])
    lone = "no NIC shares a PCIe switch with a GPU"
    for box, chosen, said in (
        (nics("a"), None, f"{lone}, and the file has no PCIe tree; {DUMP}"),
        (
            nics("a", tree=True),
            None,
            f"{lone}; --nics all takes them over the CPUs, or name those that are used",
        ),
        (nics("a", "b"), "b,b", "--nics: 'b' is named twice"),
        (nics("a", "b"), "b, d", "--nics: no NIC is called 'd'; there are a, b"),
        (nics("n" * 201), "d" * 41, f"--nics: no NIC is called '{'d' * 40}'; there are {'n' * 200}"),
    ):
        with pytest.raises(FormatError) as caught:
            networks._choose_nics(SOURCE, box, ImportOptions(nics=chosen), [])
        assert str(caught.value) == f"some/box.xml: {said}"


DUMP = "read a dump of the machine (NCCL_TOPO_DUMP_FILE)"


def test_speeds_that_are_typed_count() -> None:
    box = nics("a", "b", "c", "d", "e", "f", "g")
    warnings: list[Finding] = []
    assert networks._nic_speeds(SOURCE, box, [4, 1], ImportOptions(), warnings) == {4: 5, 1: 5}
    with pytest.raises(FormatError) as caught:
        networks._nic_speeds(SOURCE, box, [6], ImportOptions(), warnings)
    assert str(caught.value) == ("some/box.xml: speed of NIC g is not in the file; say it by --nic-bandwidth")
    assert networks._nic_speeds(SOURCE, box, [0], ImportOptions(nic_bandwidth=5), warnings) == {0: 5}
    assert warnings == []
    for chosen, told in (([0, 1, 2, 3, 6], "a, b, c, d"), (range(7), "a, b, c and 3 more")):
        found = networks._nic_speeds(SOURCE, box, list(chosen), ImportOptions(nic_bandwidth=10**9), warnings)
        assert set(found.values()) == {10**9}
        assert warnings.pop() == Finding("5 B/s in the file, 1 GB/s by --nic-bandwidth", told)
