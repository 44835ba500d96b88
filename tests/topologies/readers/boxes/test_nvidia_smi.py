"""The matrix of nvidia-smi: links, switches, near NICs, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from samples.box_files import nvidia_smi_matrix
from treadle import planning
from treadle.errors import FormatError
from treadle.topologies.readers.imported import Imported

GB = 10**9


def even(n: int, links: int) -> list[list[int]]:
    return [[0 if i == j else links for j in range(n)] for i in range(n)]


def own_nic(n: int) -> list[list[int]]:
    return [[i] for i in range(n)]


def imported(tmp_path: Path, text: str, **options: Any) -> Imported:
    path = tmp_path / "matrix.txt"
    path.write_text(text)
    return planning.import_topology(path, **options)


def algbw(found: Imported, kind: str = "allgather") -> Fraction:
    return Fraction(planning.bound(found.topology, kind).bound.algbw) / GB


@pytest.mark.parametrize(
    ("links", "options", "says"),
    [
        (even(8, 18), {}, "counts NVLinks, and not how fast they are; name their model by --gpu: p100, v100"),
        (even(8, 18), {"gpu": "a100"}, "GPU0 has 18 NVLink links, a100 have 12"),
        (
            even(8, 0),
            {"gpu": "h100"},
            r"shows no NVLinks between GPUs, of which a h100 has 18 \(does the fabric m",
        ),
        (even(8, 0), {"gpu": "pcie"}, "does not say how fast PCIe is"),
        (even(8, 18), {"gpu": "mi300x"}, "--gpu mi300x: has xGMI links, the GPUs of such a file have NVLink"),
        (
            [[0, 4, 4, 0], [4, 0, 4, 0], [4, 4, 0, 0], [0, 0, 0, 0]],
            {"gpu": "a100"},
            "GPU3 has no NVLinks, other GPUs have; if that is how it is, --pcie full joins them",
        ),
        (
            [[0, 4, 0, 0], [4, 0, 0, 0], [0, 0, 0, 4], [0, 0, 4, 0]],
            {"gpu": "a100"},
            "no NVLinks join GPU0 and GPU2",
        ),
        (
            even(4, 4),
            {"gpu": "a100", "boxes": 2, "network": "rail"},
            "speed of NIC mlx5_0 is not in the file",
        ),
    ],
)
def test_what_the_matrix_does_not_say_is_asked(
    tmp_path: Path, links: list[list[int]], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(FormatError, match=says):
        imported(tmp_path, nvidia_smi_matrix(links, own_nic(len(links))), **options)


TWO_BOXES: dict[str, Any] = {"gpu": "h100", "boxes": 2, "network": "rail", "nic_bandwidth": 50 * GB}
A_DUMP = r"; read a dump of the machine \(NCCL_TOPO_DUMP_FILE\)$"


def test_without_affinities_another_file_is_asked_for(tmp_path: Path) -> None:
    """There is no tree over which NICs could be reached, so options are no remedy."""
    text = nvidia_smi_matrix(even(8, 18), own_nic(8), cpus=[])
    far = text.replace("PIX", "NODE")
    with pytest.raises(FormatError, match="no NIC shares a PCIe switch .* the file has no.*" + A_DUMP):
        imported(tmp_path, far, **TWO_BOXES)
    for options in ({"gpu": "h100", "pcie": "full"}, {**TWO_BOXES, "nics": "all"}):
        with pytest.raises(FormatError, match="what lies between GPU0 and the CPUs, .*" + A_DUMP):
            imported(tmp_path, text, **options)


TWO_CPUS = ["0-15", "0-15", "16-31", "16-31"]
BRIDGED = [[0, 4, 0, 0], [4, 0, 0, 0], [0, 0, 0, 4], [0, 0, 4, 0]]


@pytest.mark.parametrize(
    ("model", "links", "cpu_link", "expected"),
    [
        # two of four shards enter each CPU's pair by the link of the CPUs, or by two cards' PCIe
        ("a40", BRIDGED, 20, 40),
        ("a40", BRIDGED, 100, 117),  # three shards of four enter a card by its bridge and PCIe
        ("h200-nvl", [[9 * bool(one) for one in row] for row in BRIDGED], 200, 252),
        # three shards enter a card without bridges
        ("l40s", even(4, 0), 100, 42),
        ("a6000", even(4, 0), 100, 42),
        ("rtx-pro-6000", even(4, 0), 200, 84),
        ("5090", even(4, 0), 200, 84),
        ("a10", even(4, 0), 20, 40),
    ],
)
def test_pcie_cards(tmp_path: Path, model: str, links: list[list[int]], cpu_link: int, expected: int) -> None:
    text = nvidia_smi_matrix(links, [[], [], [], []], cpus=TWO_CPUS)
    with pytest.raises(FormatError, match=r"CPUs 0-15 and CPUs 16-31 are joined.*say it by --cpu-link"):
        imported(tmp_path, text, gpu=model)
    assert algbw(imported(tmp_path, text, gpu=model, cpu_link=f"{cpu_link}GB/s")) == expected


@pytest.mark.parametrize(
    ("typed", "links", "speed"),
    [
        ("gen4x16", None, "31.5"),
        ("PCIeGen3x8", None, "7.5"),
        ("gen5x16", "library", "48"),
        ("gen6x16", None, "121"),
        ("20GB/s", None, "20"),
    ],
)
def test_pcie_is_as_fast_as_its_user_says(tmp_path: Path, typed: str, links: str | None, speed: str) -> None:
    """Four GPUs PIX to each other, which reach each other below their switch."""
    text = nvidia_smi_matrix(even(4, 0), [[0], [0], [0], [0]]).replace("SYS", "PIX")
    found = imported(tmp_path, text, gpu="pcie", pcie_bandwidth=typed, links=links)
    assert algbw(found) == Fraction(speed) * 4 / 3
    assert [str(one) for one in found.warnings] == [
        "links join not all GPUs: the whole PCIe tree is part of the fabric",
        f"GPU0, GPU1, GPU2, GPU3: share one PCIe uplink of {speed} GB/s to the CPU",
    ]
    with pytest.raises(FormatError, match="say it by --pcie-bandwidth, as gen4x16"):
        imported(tmp_path, text, gpu="pcie")
    with pytest.raises(
        FormatError, match="--pcie-bandwidth 'gen4x3': expected gen4x16 and the like, or a rate"
    ):
        imported(tmp_path, text, gpu="pcie", pcie_bandwidth="gen4x3")


def test_trays_make_a_rack(tmp_path: Path) -> None:
    """NVSwitches join the four GPUs of each tray with those of all others."""
    tray = nvidia_smi_matrix(even(4, 18), [[], [], [], []], cpus=TWO_CPUS)
    rack = imported(tmp_path, tray, gpu="gb200", trays=18)
    assert algbw(rack) == Fraction(72 * 900, 71)
    (switch,) = rack.topology.switches
    joined = rack.topology.tails[rack.topology.heads == switch]
    assert sorted(joined.tolist()) == rack.topology.compute_nodes.tolist()
    near = nvidia_smi_matrix(even(4, 18), own_nic(4), cpus=TWO_CPUS)
    two = imported(
        tmp_path, near, gpu="gb200", trays=2, boxes=2, network="one-switch", nic_bandwidth="50GB/s"
    )
    assert len(two.topology.compute_nodes) == 16
    assert algbw(two) == 2 * 8 * 50
    with pytest.raises(
        FormatError, match="--trays 3: NVSwitches join trays, and GPUs of this file have none"
    ):
        imported(tmp_path, nvidia_smi_matrix(BRIDGED, [[], [], [], []]), gpu="a40", trays=3)
    with pytest.raises(FormatError, match="--trays 300: expected at most 1024 GPUs"):
        imported(tmp_path, tray, gpu="gb200", trays=300)
