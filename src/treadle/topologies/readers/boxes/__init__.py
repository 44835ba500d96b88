"""Files that describe one box, whole: GPUs, what joins them, NICs."""

from __future__ import annotations

from treadle.topologies.readers.boxes.heads import begins_nccl_xml
from treadle.topologies.readers.reader import TopologyFormat

BOX_OPTIONS = frozenset({"boxes", "network", "nic_bandwidth", "gpu", "links", "pcie", "nics"})
"""Options that every reader of a box heeds."""
_NETWORK = "several boxes: --boxes, --network"

FORMATS = (
    TopologyFormat(
        name="nccl-xml",
        title="NCCL's and RCCL's topology XML",
        read="treadle.topologies.readers.boxes.nccl_xml:read",
        options=BOX_OPTIONS,
        tells=begins_nccl_xml,
        says="PCIe tree, GPUs, NICs; a dump also NVLinks or xGMI, ranks and speeds of NICs",
        asks=f"GPUs without links: --gpu; NICs without speed: --nic-bandwidth; {_NETWORK}",
    ),
)
