"""Files of clouds and vendors: the exact throughputs of the boxes that they describe.

The files are those of `shared/samples` beside the checkout, where they are there; their figures are worked
out by hand from vendors' documents: per GPU the links' bandwidth, per box the NICs'.
"""

from __future__ import annotations

from fractions import Fraction
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


def test_one_box_of_mi250_is_the_preset_in_another_order() -> None:
    fabric = imported(MI250[0]).topology
    preset = parse("mi250:1")
    assert fabric != preset
    assert find_isomorphism(fabric, preset) is not None
