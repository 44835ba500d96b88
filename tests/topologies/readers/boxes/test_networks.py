"""What joins boxes: one switch, rails, leaves and spines."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from samples.box_files import nccl_xml
from treadle import planning
from treadle.errors import FormatError
from treadle.topologies import Topology

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
        ({"boxes": 2, "network": "rails:5"}, "a box has 4 NICs, expected 1 to so many rails"),
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
