"""What joins boxes: one switch, rails, leaves and spines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from samples.box_files import nccl_xml
from treadle import planning
from treadle.errors import FormatError
from treadle.topologies.readers.boxes import networks
from treadle.topologies.readers.boxes.box import BridgeKind
from treadle.topologies.readers.imported import SourceFile


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """Four A100; NICs of 12.5 GB/s."""
    path = tmp_path / "box.xml"
    path.write_text(nccl_xml(nic_mbit_per_s=100000))
    return path


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


def nics(*names: str, tree: bool = False) -> Any:
    """A box with these NICs; of 5 bytes/s but for the last, whose speed nobody knows."""
    speeds = [*[5] * (len(names) - 1), None]
    listed = [SimpleNamespace(name=name, bandwidth=speed) for name, speed in zip(names, speeds, strict=True)]
    kinds = [BridgeKind.SWITCH, *([BridgeKind.HOST] if tree else [])]
    return SimpleNamespace(nics=listed, bridges=[SimpleNamespace(kind=kind) for kind in kinds])
