"""Files that describe one box, whole: GPUs, what joins them, NICs."""

from __future__ import annotations

from treadle.topologies.readers.boxes.heads import (
    begins_amd_smi,
    begins_hwloc_xml,
    begins_nccl_log,
    begins_nccl_xml,
    begins_nvidia_smi,
    begins_rocm_smi,
)
from treadle.topologies.readers.reader import TopologyFormat

BOX_OPTIONS = frozenset({"boxes", "network", "nic_bandwidth", "gpu", "links", "pcie", "nics", "trays"})
"""Options that every reader of a box heeds."""
_NETWORK = "several boxes: --boxes, --network"

_ROOM = "treadle.topologies.readers.boxes"

FORMATS = (
    TopologyFormat(
        name="nccl-xml",
        title="NCCL's and RCCL's topology XML",
        read=f"{_ROOM}.nccl_xml:read",
        options=BOX_OPTIONS | {"cpu_link"},
        tells=begins_nccl_xml,
        says="PCIe tree, GPUs, NICs; a dump also NVLinks or xGMI, ranks and speeds of NICs",
        asks=f"GPUs without links: --gpu; NICs without speed: --nic-bandwidth; {_NETWORK}",
    ),
    TopologyFormat(
        name="nccl-log",
        title="the system tree in NCCL's log",
        read=f"{_ROOM}.nccl_system:read",
        options=BOX_OPTIONS - {"gpu"} | {"cpu_link"},
        tells=begins_nccl_log,
        says="GPUs and ranks, NVLinks, PCIe, NICs and their speeds, as NCCL uses them",
        asks=f"{_NETWORK}",
    ),
    TopologyFormat(
        name="nvidia-smi",
        title="the matrix of nvidia-smi topo -m",
        read=f"{_ROOM}.nvidia_smi:read",
        options=BOX_OPTIONS | {"cpu_link", "pcie_bandwidth"},
        tells=begins_nvidia_smi,
        says="numbers of NVLinks between GPUs; NICs, and which share a PCIe switch with a GPU; affinities",
        asks=f"--gpu; over PCIe --cpu-link; --nic-bandwidth; --trays of a rack; {_NETWORK}",
    ),
    TopologyFormat(
        name="rocm-smi",
        title="tables of rocm-smi --showtopo",
        read=f"{_ROOM}.amd_tables:read_rocm_smi",
        options=BOX_OPTIONS,
        tells=begins_rocm_smi,
        says="which GPUs xGMI joins directly",
        asks="--gpu; it has no NICs, so one box only",
    ),
    TopologyFormat(
        name="amd-smi",
        title="tables of amd-smi topology",
        read=f"{_ROOM}.amd_tables:read_amd_smi",
        options=BOX_OPTIONS,
        tells=begins_amd_smi,
        says="which GPUs xGMI joins directly, and their bus ids",
        asks="--gpu; it has no NICs, so one box only",
    ),
    TopologyFormat(
        name="hwloc-xml",
        title="hwloc's XML (lstopo)",
        read=f"{_ROOM}.hwloc:read",
        options=BOX_OPTIONS,
        tells=begins_hwloc_xml,
        says="PCIe tree with speeds, GPUs and their models, bandwidths of NVLinks or xGMI, NICs",
        asks=f"GPUs of unknown model: --gpu; --nic-bandwidth; {_NETWORK}",
    ),
)
