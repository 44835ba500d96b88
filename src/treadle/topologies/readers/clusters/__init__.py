"""Files that describe a cluster: switches, hosts and what joins them."""

from __future__ import annotations

import re

from treadle.topologies.readers.reader import TopologyFormat
from treadle.topologies.readers.yaml_source import MAX_YAML_BYTES

_HERE = "treadle.topologies.readers.clusters"
_IB_NODE = re.compile(r"^(?:Switch|Ca|Rt)\s+[0-9]+\s+\"", re.MULTILINE)
_IB_LINK = re.compile(r"\[[^\]\n]{0,4}\] *==\([^\n]{0,120}?\)==>")
_TACCL = re.compile(r'\s*\{[^\[{]*"(?:gpus_per_node|nnodes)"\s*:')
_ASTRA = {
    key: re.compile(rf"^{key}\s*:", re.MULTILINE)
    for key in ("topology", "npus_count", "bandwidth", "latency")
}
_INFRA_YAML = re.compile(r"^(?:infrastructure\s*:|instances\s*:\s*$)", re.MULTILINE)
_INFRA_JSON = re.compile(r'\s*\{.{0,4000}?"(?:infrastructure|instances|components)"\s*:', re.DOTALL)
_SLURM_CONF = re.compile(r"^[ \t]{0,99}(?:SwitchName|BlockName)\s*=", re.MULTILINE | re.IGNORECASE)
_SLURM_YAML = re.compile(r"^-\s+topology\s*:", re.MULTILINE)
_PLATFORM = re.compile(r"<platform\b")


def _is_infragraph(head: str) -> bool:
    if head.lstrip()[:1] != "{":
        return _INFRA_YAML.search(head) is not None
    return not head.lstrip()[1:].lstrip().startswith('"treadle"') and _INFRA_JSON.match(head) is not None


FORMATS = (
    TopologyFormat(
        name="ibnetdiscover",
        title="ibnetdiscover's output",
        read=f"{_HERE}.ibnetdiscover:read",
        options=frozenset({"bandwidth"}),
        detect=_IB_NODE.search,
        contents="switches, HCAs, every cable with its speed",
        missing="--bandwidth where ports have no speed",
    ),
    TopologyFormat(
        name="iblinkinfo",
        title="iblinkinfo's output",
        read=f"{_HERE}.ibnetdiscover:read_links",
        options=frozenset(),
        detect=_IB_LINK.search,
        contents="switches, HCAs, every cable with its speed, ports that could be faster",
    ),
    TopologyFormat(
        name="taccl",
        title="TACCL's topology",
        read=f"{_HERE}.taccl_profile:read",
        options=frozenset({"chunk_size", "boxes", "network"}),
        detect=_TACCL.match,
        contents="time of a chunk on the links of a box and between boxes",
        missing="--chunk-size; for several boxes --boxes and --network relay:0-1 or direct-map",
    ),
    TopologyFormat(
        name="astra-sim",
        title="ASTRA-sim's network.yml",
        read=f"{_HERE}.astrasim:read",
        options=frozenset(),
        detect=lambda head: head.lstrip()[:1] != "{" and all(key.search(head) for key in _ASTRA.values()),
        max_bytes=MAX_YAML_BYTES,
        contents="dimensions of rings, switches and full meshes with speeds",
    ),
    TopologyFormat(
        name="infragraph",
        title="InfraGraph",
        read=f"{_HERE}.infragraph:read",
        options=frozenset({"bandwidth"}),
        detect=_is_infragraph,
        max_bytes=MAX_YAML_BYTES,
        contents="devices, their components, instances and links",
        missing="--bandwidth where links have none",
    ),
    TopologyFormat(
        name="slurm",
        title="Slurm's topology.conf",
        read=f"{_HERE}.slurm_tree:read_conf",
        options=frozenset({"nic_bandwidth", "oversubscription"}),
        detect=_SLURM_CONF.search,
        contents="switches and the nodes below them",
        missing="--nic-bandwidth, --oversubscription",
    ),
    TopologyFormat(
        name="slurm-yaml",
        title="Slurm's topology.yaml",
        read=f"{_HERE}.slurm_tree:read_yaml",
        options=frozenset({"nic_bandwidth", "oversubscription"}),
        detect=_SLURM_YAML.search,
        max_bytes=MAX_YAML_BYTES,
        contents="switches and the nodes below them",
        missing="--nic-bandwidth, --oversubscription",
    ),
    TopologyFormat(
        name="simgrid",
        title="SimGrid's platform",
        read=f"{_HERE}.simgrid_platform:read",
        options=frozenset(),
        detect=_PLATFORM.search,
        contents="one cluster: flat, fat tree, torus or dragonfly; or hosts, routers and routes of one link",
    ),
)
