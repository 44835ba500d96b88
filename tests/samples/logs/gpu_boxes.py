"""Fabrics of public threads: boxes of GPUs with PCIe switches and few network cards."""

from __future__ import annotations

from treadle.topologies import Topology, TopologyBuilder, dgx1_v100

GB = 10**9


def v100_boxes(boxes: int, nic: int = 25 * GB // 2) -> Topology:
    """Hybrid cube meshes with one NIC each, below the PCIe switch of GPUs 2 and 3."""
    builder = TopologyBuilder(f"{boxes} x V100, one NIC")
    mesh = dgx1_v100()
    ports = []
    for box in range(boxes):
        gpus = [builder.compute(f"box{box}.gpu{number}") for number in range(8)]
        for link in range(mesh.n_links):
            ends = gpus[int(mesh.tails[link])], gpus[int(mesh.heads[link])]
            builder.link(*ends, int(mesh.bandwidths[link]))
        pcie = builder.switch(f"box{box}.pcie0")
        for gpu in gpus[2:4]:
            builder.duplex(gpu, pcie, 31 * GB // 2)
        ports.append(pcie)
    top = builder.switch("ib0")
    for port in ports:
        builder.duplex(port, top, nic)
    return builder.build()


def nvswitch_boxes(
    boxes: int,
    *,
    gpus: int = 8,
    nvlink: int = 300 * GB,
    nics: int = 4,
    nic: int = 25 * GB,
    pcie: int = 63 * GB // 2,
) -> Topology:
    """NVSwitch boxes, GPUs spread evenly over a PCIe switch for each NIC; one switch joins all NICs.

    With one box there is neither PCIe nor a NIC.
    """
    builder = TopologyBuilder(f"{boxes} x {gpus} GPUs, {nics} NICs")
    ports = []
    for box in range(boxes):
        names = [builder.compute(f"box{box}.gpu{number}") for number in range(gpus)]
        if gpus > 1:
            switch = builder.switch(f"box{box}.nvswitch")
            for name in names:
                builder.duplex(name, switch, nvlink)
        for number in range(nics if boxes > 1 else 0):
            below = names[number * gpus // nics : (number + 1) * gpus // nics]
            if not below:
                continue
            bridge = builder.switch(f"box{box}.pcie{number}")
            for name in below:
                builder.duplex(name, bridge, pcie)
            ports.append((bridge, f"box{box}.nic{number}"))
    if boxes == 1:
        return builder.build()
    top = builder.switch("ib0")
    for bridge, port in ports:
        builder.switch(port)
        builder.duplex(bridge, port, nic)
        builder.duplex(port, top, nic)
    return builder.build()


def lone_gpus(nics: int = 4, nic: int = 50 * GB, pcie: int = 63 * GB) -> Topology:
    """Two boxes of one GPU each, whose PCIe switch has several NICs."""
    builder = TopologyBuilder(f"2 x 1 GPU, {nics} NICs")
    for box in range(2):
        builder.compute(f"box{box}.gpu0")
    for box in range(2):
        builder.duplex(f"box{box}.gpu0", builder.switch(f"box{box}.pcie0"), pcie)
    top = builder.switch("ib0")
    for box in range(2):
        for number in range(nics):
            port = builder.switch(f"box{box}.nic{number}")
            builder.duplex(f"box{box}.pcie0", port, nic)
            builder.duplex(port, top, nic)
    return builder.build()
