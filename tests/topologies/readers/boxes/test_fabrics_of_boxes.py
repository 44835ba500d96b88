"""Fabrics of boxes cable by cable, what is said of them, and every refusal in full."""

from __future__ import annotations

from typing import Any

import pytest

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
from treadle.topologies.readers.imported import (
    Imported,
    ImportOptions,
    SourceFile,
)
from treadle.topologies.topology import Topology

SOURCE = SourceFile("", "box.xml")
GB = 10**9


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


@pytest.mark.parametrize(
    ("network", "rails"), [("one-switch", 1), ("rails:1", 1), ("rails:2", 2), ("rails:3", 3)]
)
def test_rails_by_number(network: str, rails: int) -> None:
    found = made(boxes=2, network=network, nics="all")
    names = [(f"box{b}.nic{k}", f"ib{k % rails}") for b in range(2) for k in range(3)]
    assert [(one, other) for one, other, _ in cables(found.topology) if other.startswith("ib")] == names
