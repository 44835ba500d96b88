"""Files of clouds and vendors: the exact throughputs of the boxes that they describe.

The files are those of `shared/samples` beside the checkout, where they are there; their figures are worked
out by hand from vendors' documents: per GPU the links' bandwidth, per box the NICs'.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, TypeAlias

import pytest

from places import FOREIGN_SAMPLES
from treadle import planning
from treadle.errors import FormatError
from treadle.topologies import Topology
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

pytestmark = pytest.mark.skipif(not FOREIGN_SAMPLES.is_dir(), reason="no samples beside the checkout")


def imported(name: str, **options: Any) -> Imported:
    return planning.import_topology(FOREIGN_SAMPLES / name, **options)


def algbw(topology: Topology, collective: str) -> Fraction:
    """In GB/s."""
    return Fraction(planning.bound(topology, collective).bound.algbw) / GB


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


def test_the_whole_pcie_tree_inflates_a_box() -> None:
    """As NCCL's graph has it: A100 378.87 and MI300X 584.02 unrounded, of 31.508 and 63.015 GB/s a GPU."""
    a100 = imported(NDV4[0], gpu="a100", pcie="full").topology
    assert algbw(a100, "allgather") == Fraction(8, 7) * Fraction("331.5")
    assert algbw(imported(MI300X[0], pcie="full").topology, "allgather") == 584
