"""Vendors' platforms. Bandwidths are bytes/s per direction; every node has equal ingress and egress."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, combinations

from treadle.errors import TopologyError
from treadle.topologies.catalogue.platform_table import platform
from treadle.topologies.families import Each, Families, LinkFamily, NodeFamily, Part
from treadle.topologies.limits import check_count, check_counts, check_size
from treadle.topologies.naming import call_expression
from treadle.topologies.topology import Topology, TopologyBuilder

GB_PER_S = 10**9
"""Bytes/s in 1 GB/s."""

# (GPU, GPU, number of links); dissertation, figure 4.9(a).
_MI250_LINKS = (
    *((0, 1, 4), (0, 4, 2), (0, 8, 1), (1, 5, 1), (1, 9, 1), (1, 10, 1), (2, 3, 4)),
    *((2, 6, 1), (2, 9, 1), (2, 10, 1), (3, 7, 2), (3, 11, 1), (4, 5, 4), (4, 6, 1)),
    *((5, 6, 1), (5, 7, 1), (6, 7, 4), (8, 9, 4), (8, 12, 2), (9, 13, 1), (10, 11, 4)),
    *((10, 14, 1), (11, 15, 2), (12, 13, 4), (12, 14, 1), (13, 14, 1), (13, 15, 1), (14, 15, 4)),
)

# (GPU, GPU, number of NVLinks): NVIDIA DGX-1 with Tesla V100 white paper, hybrid cube mesh.
_DGX1_V100_LINKS = (
    *((0, 1, 1), (0, 2, 1), (0, 3, 2), (0, 4, 2), (1, 2, 2), (1, 3, 1), (1, 5, 2), (2, 3, 2)),
    *((2, 6, 1), (3, 7, 1), (4, 5, 1), (4, 6, 1), (4, 7, 2), (5, 6, 2), (5, 7, 1), (6, 7, 2)),
)


def add_box(
    builder: TopologyBuilder, box: str, gpus: int, bandwidth: int, *, capable: bool = False
) -> list[str]:
    """GPUs around one NVSwitch; returns the GPUs' names. `capable`: it copies and sums for GPUs that ask."""
    names = [builder.compute(f"{box}.gpu{i}") for i in range(gpus)]
    switch = builder.switch(f"{box}.nvswitch", multicast=capable, aggregation=capable)
    for name in names:
        builder.duplex(name, switch, bandwidth)
    return names


def _boxes_on_one_switch(
    name: str,
    shape: tuple[int, int],
    box_bandwidth: int,
    nic_bandwidth: int,
    *,
    prefix: str = "box",
    nvls: bool = False,
    sharp: bool = False,
) -> Topology:
    """Return NVSwitch boxes on one InfiniBand switch; `shape` is (boxes, GPUs per box)."""
    boxes, gpus = shape
    function, plural = name.partition("(")[0], "boxes" if prefix == "box" else "racks"
    check_counts(function, **{plural: boxes, f"gpus_per_{prefix}": gpus})
    check_size(function, boxes * (gpus + 1) + 1, 4 * boxes * gpus)
    if sharp and boxes == 1:
        raise TopologyError(f"{function}: sharp needs at least 2 {plural}, one has no InfiniBand switch")
    caps = ("multicast", "aggregation")
    gpu = NodeFamily(f"{prefix}{{box}}.gpu{{gpu}}", is_compute=True)
    nvswitch = NodeFamily(f"{prefix}{{box}}.nvswitch", able=caps if nvls else ())
    nodes: tuple[Part, ...] = (Each(("box",), (gpu, nvswitch)),)
    links: tuple[Part, ...] = (LinkFamily(gpu, nvswitch, box_bandwidth),)
    if boxes > 1:
        top = NodeFamily("ib0", able=(*caps, "turns_round") if sharp else ())
        nodes, links = (*nodes, top), (*links, LinkFamily(gpu, top, nic_bandwidth))
    return Families({"box": boxes, "gpu": gpus}, nodes, links).build(name)


@platform(
    source="ForestColl dissertation, 4.6.2 (A100 testbed)",
    samples=("dgx_a100(2)", "dgx_a100(1, 4, pcie=True)"),
)
def dgx_a100(
    boxes: int,
    gpus_per_box: int = 8,
    *,
    pcie: bool = False,
    nvlink_bandwidth: int = 300 * GB_PER_S,
    nic_bandwidth: int = 25 * GB_PER_S,
    pcie_bandwidth: int = 32 * GB_PER_S,
) -> Topology:
    """NVIDIA DGX A100 boxes with their NICs as nodes and two InfiniBand rails, even and odd NICs.

    Parameters
    ----------
    boxes : int
        One box is without NICs, PCIe and InfiniBand switches.
    gpus_per_box : int
        GPUs on the NVSwitch, one NIC each.
    pcie : bool
        True models the PCIe switch that each two GPUs share with their two NICs; else GPU i has NIC i alone.
    nvlink_bandwidth : int
        GPU to NVSwitch, bytes/s.
    nic_bandwidth : int
        NIC to its rail, and GPU (or PCIe switch) to NIC, bytes/s.
    pcie_bandwidth : int
        GPU to PCIe switch, bytes/s.

    Raises
    ------
    TopologyError
        If an argument is out of range.

    Notes
    -----
    300 and 25 GB/s, two GPUs and two NICs to a PCIe switch: ForestColl dissertation, 4.6.2 (A100 testbed).
    32 GB/s: 16 lanes of PCIe 4.0 at 16 GT/s, before encoding.

    Examples
    --------
    >>> dgx_a100(2)
    <Topology dgx_a100(2): 16 compute, 20 switches, 96 links>
    """
    check_counts("dgx_a100", boxes=boxes, gpus_per_box=gpus_per_box)
    # two ways each: GPU to NVSwitch, GPU to NIC, NIC to rail, and one more over the PCIe switch
    check_size("dgx_a100", boxes * (3 * gpus_per_box + 1) + 2, (8 if pcie else 6) * boxes * gpus_per_box)
    builder = TopologyBuilder(call_expression(dgx_a100, locals()))
    # all boxes first: compute nodes and NVSwitches lead the numbering
    all_gpus = [add_box(builder, f"box{box}", gpus_per_box, nvlink_bandwidth) for box in range(boxes)]
    if boxes > 1:
        rails = [builder.switch(f"ib{rail}") for rail in range(min(2, gpus_per_box))]
        for box, (i, gpu) in ((box, pair) for box, gpus in enumerate(all_gpus) for pair in enumerate(gpus)):
            # a NIC for each GPU, on the rail of its parity
            nic, upper = builder.switch(f"box{box}.nic{i}"), gpu
            if pcie:
                upper = f"box{box}.pcie{i // 2}"
                if i % 2 == 0:
                    builder.switch(upper)
                builder.duplex(gpu, upper, pcie_bandwidth)
            builder.duplex(upper, nic, nic_bandwidth)
            builder.duplex(nic, rails[i % 2], nic_bandwidth)
    return builder.build()


@platform(source="ForestColl dissertation, figure 4.1 and 4.6.2", samples=("dgx_a100_flat(1)",))
def dgx_a100_flat(
    boxes: int,
    gpus_per_box: int = 8,
    *,
    nvlink_bandwidth: int = 300 * GB_PER_S,
    nic_bandwidth: int = 25 * GB_PER_S,
) -> Topology:
    """NVIDIA DGX A100 boxes, GPUs straight to one InfiniBand switch.

    Parameters
    ----------
    boxes : int
        One box is without an InfiniBand switch.
    gpus_per_box : int
        GPUs on the NVSwitch.
    nvlink_bandwidth, nic_bandwidth : int
        GPU to NVSwitch and GPU to InfiniBand switch, bytes/s.

    Raises
    ------
    TopologyError
        If an argument is out of range.

    Notes
    -----
    300 and 25 GB/s: ForestColl dissertation, figure 4.1 and 4.6.2.
    """
    name = call_expression(dgx_a100_flat, locals())
    return _boxes_on_one_switch(name, (boxes, gpus_per_box), nvlink_bandwidth, nic_bandwidth)


@platform(source="ForestColl dissertation, 4.6.3", samples=("dgx_h100(2, nvls=True, sharp=True)",))
def dgx_h100(
    boxes: int,
    gpus_per_box: int = 8,
    *,
    nvls: bool = False,
    sharp: bool = False,
    nvlink_bandwidth: int = 450 * GB_PER_S,
    nic_bandwidth: int = 50 * GB_PER_S,
) -> Topology:
    """NVIDIA DGX H100 boxes, GPUs straight to one InfiniBand switch.

    Parameters
    ----------
    boxes : int
        One box is without an InfiniBand switch.
    gpus_per_box : int
        GPUs on the NVSwitch.
    nvls : bool
        The NVSwitches multicast and aggregate for GPUs that ask (NVLink SHARP): a sum is handed to the asker.
    sharp : bool
        The InfiniBand switch multicasts and aggregates and turns sums round by itself; needs two boxes.
    nvlink_bandwidth, nic_bandwidth : int
        GPU to NVSwitch and GPU to InfiniBand switch, bytes/s.

    Raises
    ------
    TopologyError
        If an argument is out of range.

    Notes
    -----
    450 and 50 GB/s: ForestColl dissertation, 4.6.3. NVLink SHARP as PTX's multimem instructions have it: a
    store reaches every GPU of the multicast group, ld_reduce reads every GPU's memory, the asker's included.
    """
    name = call_expression(dgx_h100, locals())
    return _boxes_on_one_switch(
        name, (boxes, gpus_per_box), nvlink_bandwidth, nic_bandwidth, nvls=nvls, sharp=sharp
    )


@platform(source="NVIDIA's data sheet of the DGX B200", samples=("dgx_b200(1, 4)", "dgx_b200(2, nvls=True)"))
def dgx_b200(
    boxes: int,
    gpus_per_box: int = 8,
    *,
    nvls: bool = False,
    sharp: bool = False,
    nvlink_bandwidth: int = 900 * GB_PER_S,
    nic_bandwidth: int = 50 * GB_PER_S,
) -> Topology:
    """NVIDIA DGX B200 boxes, GPUs straight to one InfiniBand switch.

    Parameters
    ----------
    boxes : int
        One box is without an InfiniBand switch.
    gpus_per_box : int
        GPUs on the NVSwitch.
    nvls, sharp : bool
        As for `dgx_h100`.
    nvlink_bandwidth, nic_bandwidth : int
        GPU to NVSwitch and GPU to InfiniBand switch, bytes/s.

    Raises
    ------
    TopologyError
        If an argument is out of range.

    Notes
    -----
    900 GB/s per direction: the data sheet's 14.4 TB/s of NVLink, all eight GPUs and both directions together.
    50 GB/s: a 400 Gbit/s port per GPU.

    Examples
    --------
    >>> dgx_b200(2)
    <Topology dgx_b200(2): 16 compute, 3 switches, 64 links>
    """
    name, shape = call_expression(dgx_b200, locals()), (boxes, gpus_per_box)
    return _boxes_on_one_switch(name, shape, nvlink_bandwidth, nic_bandwidth, nvls=nvls, sharp=sharp)


@platform(
    source="NVIDIA's product page of the GB200 NVL72",
    samples=("gb200_nvl72(1, 4)", "gb200_nvl72(2, 2, nvls=True, sharp=True)"),
)
def gb200_nvl72(
    racks: int,
    gpus_per_rack: int = 72,
    *,
    nvls: bool = False,
    sharp: bool = False,
    nvlink_bandwidth: int = 900 * GB_PER_S,
    nic_bandwidth: int = 50 * GB_PER_S,
) -> Topology:
    """NVIDIA GB200 NVL72 racks: 72 GPUs in one NVLink domain, a NIC per GPU to one InfiniBand switch.

    Parameters
    ----------
    racks : int
        One rack is without an InfiniBand switch.
    gpus_per_rack : int
        GPUs in the NVLink domain (36 in an NVL36).
    nvls, sharp : bool
        As of `dgx_h100`: what the NVSwitches do for GPUs that ask, and the InfiniBand switch by itself.
    nvlink_bandwidth, nic_bandwidth : int
        GPU to NVSwitch and GPU to InfiniBand switch, bytes/s.

    Raises
    ------
    TopologyError
        If an argument is out of range.

    Notes
    -----
    900 GB/s per direction: NVIDIA's product page gives 1.8 TB/s of fifth-generation NVLink per GPU, both
    directions together. 50 GB/s: a 400 Gbit/s ConnectX-7 port per GPU.
    """
    name, shape = call_expression(gb200_nvl72, locals()), (racks, gpus_per_rack)
    return _boxes_on_one_switch(
        name, shape, nvlink_bandwidth, nic_bandwidth, prefix="rack", nvls=nvls, sharp=sharp
    )


@platform(source="NVIDIA DGX-1 with Tesla V100 white paper", samples=("dgx1_v100()",))
def dgx1_v100(*, nvlink_bandwidth: int = 25 * GB_PER_S) -> Topology:
    """NVIDIA DGX-1 with V100: eight GPUs in a hybrid cube mesh, six NVLinks each, some pairs doubled.

    Parameters
    ----------
    nvlink_bandwidth : int
        Of one NVLink, bytes/s; a doubled pair is one link of twice that.

    Notes
    -----
    Adjacency and 25 GB/s per link and direction: NVIDIA DGX-1 with Tesla V100 System Architecture white paper
    (hybrid cube mesh). PCIe and the CPUs are left out.
    """
    return _direct_boxes(call_expression(dgx1_v100, locals()), (1, 8), _DGX1_V100_LINKS, nvlink_bandwidth, 0)


@platform(source="ForestColl dissertation, figure 4.9(a) and 4.6.2", samples=("mi250(2, 8)",))
def mi250(
    boxes: int,
    gpus_per_box: int = 16,
    *,
    fabric_bandwidth: int = 50 * GB_PER_S,
    nic_bandwidth: int = 16 * GB_PER_S,
) -> Topology:
    """AMD MI250 boxes: directly connected GPUs (dies), each with a share of the NICs to one switch.

    Parameters
    ----------
    boxes : int
        One box is without an InfiniBand switch.
    gpus_per_box : int
        16, or 8 for GPUs 0 to 7 of each box alone (the "8+8" setting).
    fabric_bandwidth : int
        Of one Infinity Fabric link, bytes/s; n links between two GPUs are one link of n times that.
    nic_bandwidth : int
        GPU to InfiniBand switch, bytes/s.

    Raises
    ------
    TopologyError
        If an argument is out of range.

    Notes
    -----
    Adjacency: ForestColl dissertation, figure 4.9(a); 7 links of 50 GB/s per GPU and 16 GB/s to the
    InfiniBand switch (256 GB/s per box): 4.6.2.
    """
    check_count("mi250", "boxes", boxes)
    if gpus_per_box not in (8, 16):
        raise TopologyError(f"mi250: gpus_per_box must be 8 or 16, found {gpus_per_box!r}")
    links = [link for link in _MI250_LINKS if max(link[:2]) < gpus_per_box]
    check_size("mi250", boxes * gpus_per_box + 1, 2 * boxes * (len(links) + gpus_per_box))
    name = call_expression(mi250, locals())
    return _direct_boxes(name, (boxes, gpus_per_box), links, fabric_bandwidth, nic_bandwidth)


def _direct_boxes(
    name: str, shape: tuple[int, int], links: Iterable[tuple[int, int, int]], fabric: int, nic: int
) -> Topology:
    """Return boxes whose GPUs are joined by numbers of links; several boxes by one InfiniBand switch."""
    boxes, gpus = shape
    builder = TopologyBuilder(name)
    rows = [[builder.compute(f"box{box}.gpu{i}") for i in range(gpus)] for box in range(boxes)]
    for row in rows:
        for one, other, count in links:
            builder.duplex(row[one], row[other], count * fabric)
    if boxes > 1:
        top = builder.switch("ib0")
        for gpu in chain.from_iterable(rows):
            builder.duplex(gpu, top, nic)
    return builder.build()


@platform(source="AMD CDNA 3 white paper", samples=("mi300x(1)",))
def mi300x(
    boxes: int,
    gpus_per_box: int = 8,
    *,
    fabric_bandwidth: int = 64 * GB_PER_S,
    nic_bandwidth: int = 50 * GB_PER_S,
) -> Topology:
    """AMD MI300X boxes: eight fully connected GPUs, a NIC each to one InfiniBand switch.

    Parameters
    ----------
    boxes : int
        One box is without an InfiniBand switch.
    gpus_per_box : int
        At least 2 and at most 8, the platform's size.
    fabric_bandwidth : int
        Between each two GPUs of a box, bytes/s per direction.
    nic_bandwidth : int
        GPU to InfiniBand switch, bytes/s.

    Raises
    ------
    TopologyError
        If an argument is out of range.

    Notes
    -----
    64 GB/s: AMD CDNA 3 white paper, seven 16-lane Infinity Fabric links per GPU at 32 Gbit/s per lane, 128
    GB/s per link both directions together. 50 GB/s: a 400 Gbit/s NIC per GPU, one PCIe 5.0 slot each.
    """
    check_count("mi300x", "boxes", boxes)
    check_count("mi300x", "gpus_per_box", gpus_per_box, least=2, most=8)
    check_size("mi300x", boxes * gpus_per_box + 1, boxes * gpus_per_box * (gpus_per_box + 1))
    name = call_expression(mi300x, locals())
    links = [(one, other, 1) for one, other in combinations(range(gpus_per_box), 2)]
    return _direct_boxes(name, (boxes, gpus_per_box), links, fabric_bandwidth, nic_bandwidth)
