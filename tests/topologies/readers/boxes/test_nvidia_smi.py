"""The matrix of nvidia-smi: links, switches, near NICs, and what is refused."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from samples.box_files import nvidia_smi_matrix
from treadle import planning
from treadle.errors import FormatError
from treadle.topologies import dgx1_v100, dgx_h100
from treadle.topologies.readers.imported import Imported

GB = 10**9
HYBRID_CUBE = [
    *([0, 1, 1, 2, 2, 0, 0, 0], [1, 0, 2, 1, 0, 2, 0, 0], [1, 2, 0, 2, 0, 0, 1, 0], [2, 1, 2, 0, 0, 0, 0, 1]),
    *([2, 0, 0, 0, 0, 1, 1, 2], [0, 2, 0, 0, 1, 0, 2, 1], [0, 0, 1, 0, 1, 2, 0, 2], [0, 0, 0, 1, 2, 1, 2, 0]),
]


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


def test_more_links_than_direct_ones_take_are_of_a_switch(tmp_path: Path) -> None:
    found = imported(tmp_path, nvidia_smi_matrix(even(8, 18), own_nic(8)), gpu="h100")
    assert found.topology == dgx_h100(1)
    assert found.format == "nvidia-smi"
    two = imported(
        tmp_path,
        nvidia_smi_matrix(even(8, 18), own_nic(8)),
        gpu="h100",
        boxes=2,
        network="rail",
        nic_bandwidth=50 * GB,
    )
    assert algbw(two) == Fraction(1600, 3)
    assert [warning.place for warning in two.warnings] == ["mlx5_8"]  # near to no GPU
    assert two.recognised["pairs"].startswith("gpu0: mlx5_0; gpu1: mlx5_1; ")


@pytest.mark.parametrize(
    ("links", "gpu", "one", "two"), [(4, "a100", "400", "100"), (6, "h100", "600", "100")]
)
def test_as_many_links_as_a_gpu_has_are_direct(
    tmp_path: Path, links: int, gpu: str, one: str, two: str
) -> None:
    text = nvidia_smi_matrix(even(4, links), [[0], [0], [1], [1]])
    found = imported(tmp_path, text, gpu=gpu)
    assert not found.topology.switches.size
    assert algbw(found) == Fraction(one)
    assert algbw(found, "allreduce") == Fraction(one) / 2
    joined = imported(tmp_path, text, gpu=gpu, boxes=2, network="one-switch", nic_bandwidth=25 * GB)
    assert algbw(joined) == Fraction(two)


def test_unequal_pairs_are_direct_links(tmp_path: Path) -> None:
    found = imported(tmp_path, nvidia_smi_matrix(HYBRID_CUBE, own_nic(8)), gpu="v100")
    assert found.topology == dgx1_v100()


def degraded(n: int, links: int, lost: dict[int, int]) -> list[list[int]]:
    """Cells of a box with NVSwitches in which GPUs have fewer links: a pair shows the lesser count."""
    own = [lost.get(i, links) for i in range(n)]
    return [[0 if i == j else min(own[i], own[j]) for j in range(n)] for i in range(n)]


@pytest.mark.parametrize("lost", [{3: 17}, {0: 17}, {3: 17, 5: 12}, {1: 17, 2: 17, 4: 17, 6: 17}])
def test_gpus_that_lost_links_to_switches_are_named(tmp_path: Path, lost: dict[int, int]) -> None:
    """They keep what they have; that with fewest bounds an allgather: it receives 7 of 8 shards."""
    found = imported(tmp_path, nvidia_smi_matrix(degraded(8, 18, lost), own_nic(8)), gpu="h100")
    assert found.topology.switches.size == 1
    said = {warning.place: warning.text for warning in found.warnings}
    assert said == {
        f"GPU{gpu}": f"has {count} NVLink links, another GPU has 18" for gpu, count in lost.items()
    }
    assert algbw(found) == Fraction(min(lost.values()) * 25 * 8, 7)


def test_a_gpu_without_its_links_to_switches_is_named(tmp_path: Path) -> None:
    for n, links, gpu in ((8, 18, "h100"), (16, 12, "a100"), (4, 12, "a100")):
        text = nvidia_smi_matrix(degraded(n, links, {3: 0}), own_nic(n))
        with pytest.raises(FormatError, match="GPU3 has no NVLinks, other GPUs have; if that is how it is, "):
            imported(tmp_path, text, gpu=gpu)


def test_a_pair_that_neither_switches_nor_links_explain_is_named(tmp_path: Path) -> None:
    cells = even(8, 18)
    cells[2][5] = cells[5][2] = 17
    with pytest.raises(FormatError) as refused:
        imported(tmp_path, nvidia_smi_matrix(cells, own_nic(8)), gpu="h100")
    assert str(refused.value).endswith(
        "matrix.txt:4: GPU2 to GPU5 is NV17: over NVSwitches it would be NV18, as to other GPUs; without "
        "NVSwitches GPU0 would have 126 links, h100 have 18"
    )
    # few pairs alike are no box with NVSwitches: links that the model has not
    with pytest.raises(FormatError, match=r"GPU0 has 6 NVLink links, p100 have 4; is it of another model"):
        imported(tmp_path, nvidia_smi_matrix(HYBRID_CUBE, own_nic(8)), gpu="p100")


def test_gpus_without_near_nics_use_those_of_others(tmp_path: Path) -> None:
    """Two NICs to a switch of two of four GPUs; 16 lanes of 16 GT/s are no limit to 12.5 GB/s each."""
    text = nvidia_smi_matrix(even(4, 4), [[], [], [0, 1], [0, 1]], legend=False)
    found = imported(tmp_path, text, gpu="a100", boxes=2, network="rail", nic_bandwidth=25 * GB // 2)
    assert algbw(found) == 2 * 25 * 8 / Fraction(8)
    assert found.recognised["pairs"] == "gpu2+gpu3: NIC0, NIC1"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("NV18", "NV0"), "is NV0, but NV18 in the opposite direction"),
        (("NV18", "NVX"), "GPU0 to GPU1 is 'NVX': expected NV and a number, PIX, PXB, PHB, NODE or SYS"),
        (("\tGPU1\t", "\tGPU2\t"), "expected GPU0, GPU1, ... and then NICs as columns"),
        (("\nGPU1\t", "\nGPU0\t"), ":3: GPU0 has a second row"),
        (("\nGPU7\t", "\nXPU7\t"), "row 'XPU7' is none of the columns"),
        ((" X ", "SYS"), "GPU0 to GPU0 is 'SYS'"),
    ],
)
def test_a_malformed_matrix_is_refused(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    text = nvidia_smi_matrix(even(8, 18), own_nic(8))
    with pytest.raises(FormatError, match=re.escape(says)):
        imported(tmp_path, text.replace(*change, 1), gpu="h100")


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


def test_far_nics_are_reached_over_the_cpu(tmp_path: Path) -> None:
    """A GPU receives 15 of 16 shards over 18 NVLinks and 16 lanes of PCIe 5."""
    far = nvidia_smi_matrix(even(8, 18), own_nic(8)).replace("PIX", "NODE")
    with pytest.raises(FormatError, match="no NIC shares a PCIe switch with a GPU; --nics all takes"):
        imported(tmp_path, far, **TWO_BOXES)
    found = imported(tmp_path, far, **TWO_BOXES, nics="all")
    assert algbw(found) == Fraction((18 * 25 + 63) * 16, 15)
    assert found.defaulted[-1].text == "PCIe: 16 lanes of 32 GT/s to each GPU, as of h100"


PAIRS = [[0, 12, 0, 0], [12, 0, 0, 0], [0, 0, 0, 12], [0, 0, 12, 0]]


def test_pairs_of_bridged_gpus_are_joined_over_the_cpus(tmp_path: Path) -> None:
    """Two of four shards enter a pair over the link of the CPUs, or over its GPUs' PCIe."""
    text = nvidia_smi_matrix(PAIRS, [[], [], [], []], cpus=["0-15", "0-15", "16-31", "16-31"])
    with pytest.raises(
        FormatError, match=r"CPUs 0-15 and CPUs 16-31 are joined, as 32GB/s; say it by --cpu-l"
    ):
        imported(tmp_path, text, gpu="a100")
    found = imported(tmp_path, text, gpu="a100", cpu_link="6GB/s")
    assert algbw(found) == 2 * 6
    assert [warning.text for warning in found.warnings] == [
        "links join not all GPUs: the whole PCIe tree is part of the fabric"
    ]
    lost = text.replace("NV12", "NV11")  # of boards with NVSwitches a link may have failed
    with pytest.raises(FormatError, match=r"no NVLinks join GPU0 and GPU2; .*, --pcie full joins them over"):
        imported(tmp_path, lost, gpu="a100")
    assert algbw(imported(tmp_path, lost, gpu="a100", pcie="full", cpu_link="6GB/s")) == 2 * 6
    one = imported(tmp_path, nvidia_smi_matrix(PAIRS, [[], [], [], []]), gpu="a100", pcie="full")
    assert algbw(one) == 2 * 2 * Fraction("31.5")
    assert [(warning.place, warning.text) for warning in one.warnings] == [
        ("GPU0", "SYS to GPU2, and CPUs 0-23 are those of both: taken as of one CPU")
    ]


def test_pairs_without_affinities_are_not_sent_to_the_pcie_tree(tmp_path: Path) -> None:
    text = nvidia_smi_matrix(PAIRS, [[0], [0], [1], [1]], cpus=[])
    with pytest.raises(FormatError) as refused:
        imported(tmp_path, text, gpu="a100")
    assert str(refused.value).endswith(
        "no NVLinks join GPU0 and GPU2; if that is how it is, read a dump of the machine "
        "(NCCL_TOPO_DUMP_FILE) with --pcie full: this file does not say how PCIe joins them"
    )
    with pytest.raises(FormatError, match="what lies between GPU0 and the CPUs, .*" + A_DUMP):
        imported(tmp_path, text, gpu="a100", pcie="full")
    half = nvidia_smi_matrix(PAIRS, [[], [], [], []], cpus=["0-15", "N/A", "16-31", "16-31"])
    with pytest.raises(FormatError, match="what lies between GPU0 and the CPUs, .*" + A_DUMP):
        imported(tmp_path, half, gpu="a100", pcie="full")


def test_a_box_is_taken_with_the_links_that_it_has(tmp_path: Path) -> None:
    """A GPU without NVLinks receives 7 of 8 shards over 16 lanes of PCIe 5."""
    for lost, expected in (({3: 0}, Fraction(63 * 8, 7)), ({3: 17}, Fraction((17 * 25 + 63) * 8, 7))):
        text = nvidia_smi_matrix(degraded(8, 18, lost), own_nic(8))
        found = imported(tmp_path, text, gpu="h100", pcie="full")
        assert algbw(found) == expected
        assert [warning.place for warning in found.warnings if "links" in warning.text] == ["GPU3"]
        assert found.defaulted[-1].text == "PCIe: 16 lanes of 32 GT/s to each GPU and PCIe switch, as of h100"


def test_gpus_below_one_switch_share_its_way_up(tmp_path: Path) -> None:
    """GPU 0 and 2 are PIX: both hang from a switch; the others from the CPU itself."""
    text = nvidia_smi_matrix(PAIRS, [[], [], [], []]).replace("SYS", "NODE")
    text = text.replace("X \tNV12\tNODE", "X \tNV12\tPIX").replace("GPU2\tNODE", "GPU2\tPIX")
    found = imported(tmp_path, text, gpu="a100", pcie="full").topology
    names = [found.link_name(link) for link in range(found.n_links)]
    ways = [name for name in names if name.startswith("box0.") and name.endswith(("pcie0", "cpu0"))]
    assert sorted(ways) == [
        "box0.cpu0->box0.pcie0",
        "box0.gpu0->box0.pcie0",
        "box0.gpu1->box0.cpu0",
        "box0.gpu2->box0.pcie0",
        "box0.gpu3->box0.cpu0",
        "box0.pcie0->box0.cpu0",
    ]
    with pytest.raises(FormatError, match=r"does not say how fast PCIe is, .*say it by --pcie-bandwidth"):
        imported(tmp_path, text.replace("NV12", "PHB"), gpu="pcie")


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


def test_without_peer_to_peer_all_passes_the_host(tmp_path: Path) -> None:
    """Each of four GPUs takes three shards over the way up that all share."""
    text = nvidia_smi_matrix(even(4, 0), [[0], [0], [0], [0]])
    found = imported(tmp_path, text, gpu="4090")
    assert algbw(found) == Fraction("31.5") / 3
    names = found.topology.node_names
    assert {"box0.pcie0.up", "box0.pcie0.down"} < set(names)
    assert "GPUs without peer-to-peer over PCIe: each transfer crosses the host" in map(str, found.defaulted)
    # one GPU, and two below one switch: half of the bandwidth remains, as NCCL gets by shared memory
    pair = nvidia_smi_matrix(even(2, 0), [[0], [0]])
    assert algbw(imported(tmp_path, pair, gpu="4090", links="library")) == 2 * 12
    assert algbw(imported(tmp_path, pair, gpu="4090")) == 2 * Fraction("15.75")
    # bridges of a 3090 are no PCIe
    bridged = nvidia_smi_matrix(even(2, 4), [[0], [0]])
    assert algbw(imported(tmp_path, bridged, gpu="3090")) == 2 * Fraction("56.25")


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
