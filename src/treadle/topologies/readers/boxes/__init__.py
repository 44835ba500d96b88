"""Files that describe one box, whole: GPUs, what joins them, NICs."""

from __future__ import annotations

import re

from treadle.topologies.readers.reader import TopologyFormat

BOX_OPTIONS = frozenset({"boxes", "network", "nic_bandwidth", "gpu", "links", "pcie", "nics", "trays"})
"""Options that every reader of a box supports."""
_NETWORK = "several boxes: --boxes, --network"

_ROOM = "treadle.topologies.readers.boxes"

_PROLOGUE = r"\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(?>\[[^\]]*\][^>]*)?>"
"""Pattern of parts that may precede the first element of XML."""
# atomic and possessive, so that no part is read a second time
_ELEMENT = re.compile(rf"(?>{_PROLOGUE})*+<([A-Za-z_][\w.-]*)", re.DOTALL)
_NVIDIA_SMI = re.compile(
    r"^[ \t]{0,99}(?:\x1b\[[0-9;]*m)?[ \t]{0,99}GPU0\s.*\n[ \t]{0,99}GPU0[ \t]+[A-Z]", re.MULTILINE
)
_ROCM_SMI = re.compile(r"^=+ (?:Weight|Hops|Link Type) between two GPUs =+[ \t\r]*$", re.MULTILINE)
_AMD_SMI = re.compile(r"^(?:ACCESS|WEIGHT|HOPS|LINK TYPE) TABLE:\s*$", re.MULTILINE)


def root_tag(head: str) -> str:
    """Return the name of the first element of XML; "" without one."""
    match = _ELEMENT.match(head)
    return match[1] if match else ""


FORMATS = (
    TopologyFormat(
        name="nccl-xml",
        title="NCCL's and RCCL's topology XML",
        read=f"{_ROOM}.nccl_xml:read",
        options=BOX_OPTIONS | {"cpu_link"},
        detect=lambda head: root_tag(head) == "system",
        contents="PCIe tree, GPUs, NICs; a dump also NVLinks or xGMI, ranks and speeds of NICs",
        missing=f"GPUs without links: --gpu; NICs without speed: --nic-bandwidth; {_NETWORK}",
    ),
    TopologyFormat(
        name="nccl-log",
        title="the system tree in NCCL's log",
        read=f"{_ROOM}.nccl_system:read",
        options=BOX_OPTIONS - {"gpu"} | {"cpu_link"},
        detect=lambda head: " NCCL INFO " in head,
        contents="GPUs and ranks, NVLinks, PCIe, NICs and their speeds, as NCCL uses them",
        missing=f"{_NETWORK}",
    ),
    TopologyFormat(
        name="nvidia-smi",
        title="the matrix of nvidia-smi topo -m",
        read=f"{_ROOM}.nvidia_smi:read",
        options=BOX_OPTIONS | {"cpu_link", "pcie_bandwidth"},
        detect=_NVIDIA_SMI.search,
        contents="numbers of NVLinks between GPUs; NICs, and PCIe switches that they share; affinities",
        missing=f"--gpu; over PCIe --cpu-link; --nic-bandwidth; --trays of a rack; {_NETWORK}",
    ),
    TopologyFormat(
        name="rocm-smi",
        title="tables of rocm-smi --showtopo",
        read=f"{_ROOM}.amd_tables:read_rocm_smi",
        options=BOX_OPTIONS,
        detect=_ROCM_SMI.search,
        contents="which GPUs xGMI joins directly",
        missing="--gpu; it has no NICs, so one box only",
    ),
    TopologyFormat(
        name="amd-smi",
        title="tables of amd-smi topology",
        read=f"{_ROOM}.amd_tables:read_amd_smi",
        options=BOX_OPTIONS,
        detect=_AMD_SMI.search,
        contents="which GPUs xGMI joins directly, and their bus ids",
        missing="--gpu; it has no NICs, so one box only",
    ),
    TopologyFormat(
        name="hwloc-xml",
        title="hwloc's XML (lstopo)",
        read=f"{_ROOM}.hwloc:read",
        options=BOX_OPTIONS,
        detect=lambda head: root_tag(head) == "topology" and "<object " in head,
        contents="PCIe tree with speeds, GPUs and their models, bandwidths of NVLinks or xGMI, NICs",
        missing=f"GPUs of unknown model: --gpu; --nic-bandwidth; {_NETWORK}",
    ),
)
