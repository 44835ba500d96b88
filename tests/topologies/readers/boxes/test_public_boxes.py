"""Files of clouds and vendors: the exact throughputs of the boxes that they describe.

The files are those of `shared/samples` beside the checkout, where they are there; their figures are worked
out by hand from vendors' documents: per GPU the links' bandwidth, per box the NICs'.
"""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from places import FOREIGN_SAMPLES
from treadle import planning
from treadle.errors import FormatError
from treadle.topologies import Topology, parse
from treadle.topologies.isomorphism import find_isomorphism
from treadle.topologies.readers.imported import Imported

GB = 10**9
Sample: TypeAlias = tuple[str, dict[str, Any]]
P5: Sample = ("nccl_topo_aws_p5_h100.xml", {"gpu": "h100"})
NDV4: Sample = ("nccl_topo_azure_ndv4_a100.xml", {"gpu": "a100", "nic_bandwidth": 25 * GB})
NDV5: Sample = ("nccl_topo_azure_ndv5_h100.xml", {"gpu": "h100", "nic_bandwidth": 50 * GB})
P4D: Sample = ("nccl_topo_aws_p4d_a100.xml", {"nic_bandwidth": 25 * GB // 2})
OCI: Sample = ("nccl_topo_oci_h100_dump.xml", {})
MI300X: Sample = ("rccl_topo_8p_940.xml", {})
MI250: Sample = ("rccl_topo_mi250_16p1h.xml", {})
H200: Sample = ("nvsmi_topo_m_h200_8gpu_10nic.txt", {"gpu": "h200", "nic_bandwidth": 50 * GB})
MI100: Sample = ("rccl_topo_4p3l.xml", {})

pytestmark = pytest.mark.skipif(not FOREIGN_SAMPLES.is_dir(), reason="no samples beside the checkout")


def imported(name: str, **options: Any) -> Imported:
    return planning.import_topology(FOREIGN_SAMPLES / name, **options)


def algbw(topology: Topology, collective: str) -> Fraction:
    """In GB/s."""
    return Fraction(planning.bound(topology, collective).bound.algbw) / GB


@pytest.mark.parametrize(
    ("sample", "one_box", "two_boxes"),
    [
        (P5, "3600/7", "1600/3"),
        (NDV4, "2400/7", "353.6"),
        (NDV5, "3600/7", "1600/3"),
        (P4D, "2400/7", "100"),
        (OCI, "3600/7", "528"),
        (MI300X, "512", "531.2"),
        (MI250, "2400/7", "5296/15"),
        (H200, "3600/7", "1600/3"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_one_box_and_two_on_rails(sample: Sample, one_box: str, two_boxes: str) -> None:
    name, options = sample
    for boxes, figure in (({}, one_box), ({"boxes": 2, "network": "rail"}, two_boxes)):
        fabric = imported(name, **options, **boxes).topology
        assert algbw(fabric, "allgather") == Fraction(figure)
        assert algbw(fabric, "allreduce") == Fraction(figure) / 2


@pytest.mark.parametrize(
    ("sample", "one_box", "two_boxes"),
    [
        (P5, Fraction(8, 7) * Fraction("370.8"), Fraction(16, 15) * Fraction("418.8")),
        (NDV4, Fraction(1920, 7), Fraction("281.6")),
        (NDV5, Fraction(8, 7) * Fraction("370.8"), Fraction("446.72")),
        (P4D, Fraction(1920, 7), Fraction(96)),
        (OCI, Fraction(8, 7) * Fraction("370.8"), Fraction("443.52")),
        (MI300X, Fraction(384), Fraction("409.6")),
        (MI250, Fraction(1728, 7), Fraction(256)),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_speeds_of_the_librarys_table(sample: Sample, one_box: Fraction, two_boxes: Fraction) -> None:
    name, options = sample
    for boxes, figure in (({}, one_box), ({"boxes": 2, "network": "rail"}, two_boxes)):
        fabric = imported(name, links="library", **options, **boxes).topology
        assert algbw(fabric, "allgather") == figure


TREES = [(P5, 8), (NDV4, 221), (NDV5, 2), (P4D, 1), (OCI, 22), (MI300X, 83), (MI250, 331), (H200, 2)]


@pytest.mark.parametrize(
    ("sample", "trees"), TREES, ids=lambda value: value[0] if isinstance(value, tuple) else ""
)
def test_two_boxes_take_few_exact_trees(sample: Sample, trees: int) -> None:
    """Rounded bandwidths: 331 at most, where unrounded ones would take hundreds of millions."""
    name, options = sample
    fabric = imported(name, **options, boxes=2, network="rail").topology
    result = planning.solve(fabric, "allgather", exact=True)
    assert result.report.is_ok
    assert result.report.is_optimal
    assert result.trees_per_root == trees <= 331


def test_four_gpus_whose_nics_are_far() -> None:
    name, _ = MI100
    fabric = imported(name).topology
    assert [algbw(fabric, kind) for kind in ("allgather", "allreduce")] == [184, 92]
    assert algbw(imported(name, links="library").topology, "allgather") == 96
    with pytest.raises(FormatError, match="no NIC shares a PCIe switch with a GPU; --nics all"):
        imported(name, boxes=2, network="rail")


def test_sixteen_boxes_are_worth_the_preset() -> None:
    fabric = imported(NDV5[0], **NDV5[1], boxes=16, network="rail").topology
    preset = parse("dgx_h100:16")
    for kind, figure in (("allgather", Fraction(1280, 3)), ("allreduce", Fraction(640, 3))):
        assert algbw(fabric, kind) == algbw(preset, kind) == figure


@pytest.mark.parametrize(
    ("sample", "preset"),
    [
        (P5, "dgx_h100:1"),
        (NDV4, "dgx_a100:1"),
        (NDV5, "dgx_h100:1"),
        (OCI, "dgx_h100:1"),
        (MI300X, "mi300x:1"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else value,
)
def test_one_box_is_the_preset(sample: Sample, preset: str) -> None:
    name, options = sample
    assert imported(name, **options).topology == parse(preset)


def test_tables_without_speeds_ask_for_the_model() -> None:
    for name, model, gather in (
        ("rocmsmi_showtopo_4gpu_xgmi.txt", "mi100", 184),
        ("rocmsmi_showtopo_4gpu_xgmi.txt", "mi300x", 256),
        ("nvsmi_topo_m_v100_8gpu_4nic.txt", "v100", Fraction(1200, 7)),
    ):
        with pytest.raises(FormatError, match="name their model by --gpu"):
            imported(name)
        fabric = imported(name, gpu=model).topology
        assert algbw(fabric, "allgather") == gather
        assert algbw(fabric, "allreduce") == Fraction(gather) / 2
    cube = imported("nvsmi_topo_m_v100_8gpu_4nic.txt", gpu="v100").topology
    assert find_isomorphism(cube, parse("dgx1_v100()")) is not None


def test_near_nics_of_a_matrix() -> None:
    found = imported(H200[0], **H200[1], boxes=2, network="rail")
    assert len(found.recognised["pairs"].split(";")) == 8
    assert [warning.place for warning in found.warnings] == ["mlx5_1", "NIC2"]


def test_a_dgx2_of_hwloc() -> None:
    found = imported("hwloc_nvidia_dgx2.xml")
    assert algbw(found.topology, "allgather") == 160
    assert algbw(found.topology, "allreduce") == 80
    assert found.recognised["switches"] == "12 NVSwitches, as one"
    assert "12 NVSwitches reach different GPUs" in found.warnings[0].text


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("nccl_topo_azure_ncv4_a100.xml", {}, "links of GPU 0001:00:00.0 lead to itself"),
        ("nccl_topo_aws_g5_nogpu.xml", {}, "holds no GPU"),
        ("nccl_topo_azure_ndv2_v100.xml", {}, "has no links of GPU 0001:00:00.0; name their model by --gpu"),
        ("nccl_topo_azure_ndv2_v100.xml", {"gpu": "v100"}, "boxes of 8 v100 are not all wired equally"),
        (P5[0], {}, "has no links of GPU 0000:4f:00.0 (sm 90); name their model by --gpu"),
        (P5[0], {"gpu": "a100"}, "--gpu a100: GPU 0000:4f:00.0 is of another kind, sm 90"),
        (P4D[0], {"gpu": "h100"}, "--gpu h100: GPU 0000:10:1c.0 is of another kind, a100 by its PCI ident"),
        (P4D[0], {"gpu": "mi300x"}, "is of another kind, a100 by its PCI identifiers"),
        (NDV4[0], {}, "has no links of GPU 0001:00:00.0"),
        (
            NDV4[0],
            {"gpu": "a100", "boxes": 2, "network": "rail"},
            "is not in the file; say it by --nic-bandw",
        ),
        (
            P4D[0],
            {"boxes": 2, "network": "rail"},
            "NIC 0000:10:1b.0 is not in the file; say it by --nic-band",
        ),
    ],
)
def test_what_a_file_does_not_say_is_asked(name: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(FormatError, match=re.escape(says)):
        imported(name, **options)


def test_a_box_whose_sixth_gpu_lost_its_links_is_refused(tmp_path: Path) -> None:
    lines = (FOREIGN_SAMPLES / OCI[0]).read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if 'rank="5"' in line)
    lost = [line for number, line in enumerate(lines) if not (start < number < start + 5)]
    (tmp_path / "lost.xml").write_text("\n".join(lost))
    with pytest.raises(FormatError, match=r"GPU 0000:a8:00\.0 has no NVLinks, other GPUs have"):
        planning.import_topology(tmp_path / "lost.xml")


def test_the_whole_pcie_tree_inflates_a_box() -> None:
    """As NCCL's graph has it: A100 378.87 and MI300X 584.02 unrounded, of 31.508 and 63.015 GB/s a GPU."""
    a100 = imported(NDV4[0], gpu="a100", pcie="full").topology
    assert algbw(a100, "allgather") == Fraction(8, 7) * Fraction("331.5")
    assert algbw(imported(MI300X[0], pcie="full").topology, "allgather") == 584


def test_one_box_of_mi250_is_the_preset_in_another_order() -> None:
    fabric = imported(MI250[0]).topology
    preset = parse("mi250:1")
    assert fabric != preset
    assert find_isomorphism(fabric, preset) is not None
