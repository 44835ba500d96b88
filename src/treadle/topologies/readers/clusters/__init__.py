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
        tells=_IB_NODE.search,
        says="switches, HCAs, every cable with its speed",
        asks="--bandwidth where ports have no speed",
    ),
    TopologyFormat(
        name="iblinkinfo",
        title="iblinkinfo's output",
        read=f"{_HERE}.ibnetdiscover:read_links",
        options=frozenset(),
        tells=_IB_LINK.search,
        says="switches, HCAs, every cable with its speed, ports that could be faster",
    ),
    TopologyFormat(
        name="taccl",
        title="TACCL's topology",
        read=f"{_HERE}.taccl_profile:read",
        options=frozenset({"chunk_size", "boxes", "network"}),
        tells=_TACCL.match,
        says="time of a chunk on the links of a box and between boxes",
        asks="--chunk-size; for several boxes --boxes and --network relay:0-1 or direct-map",
    ),
    TopologyFormat(
        name="astra-sim",
        title="ASTRA-sim's network.yml",
        read=f"{_HERE}.astrasim:read",
        options=frozenset(),
        tells=lambda head: head.lstrip()[:1] != "{" and all(key.search(head) for key in _ASTRA.values()),
        max_bytes=MAX_YAML_BYTES,
        says="dimensions of rings, switches and full meshes with speeds",
    ),
    TopologyFormat(
        name="infragraph",
        title="InfraGraph",
        read=f"{_HERE}.infragraph:read",
        options=frozenset({"bandwidth"}),
        tells=_is_infragraph,
        max_bytes=MAX_YAML_BYTES,
        says="devices, their components, instances and links",
        asks="--bandwidth where links have none",
    ),
    TopologyFormat(
        name="slurm",
        title="Slurm's topology.conf",
        read=f"{_HERE}.slurm_tree:read_conf",
        options=frozenset({"nic_bandwidth", "oversubscription"}),
        tells=_SLURM_CONF.search,
        says="switches and the nodes below them",
        asks="--nic-bandwidth, --oversubscription",
    ),
    TopologyFormat(
        name="slurm-yaml",
        title="Slurm's topology.yaml",
        read=f"{_HERE}.slurm_tree:read_yaml",
        options=frozenset({"nic_bandwidth", "oversubscription"}),
        tells=_SLURM_YAML.search,
        max_bytes=MAX_YAML_BYTES,
        says="switches and the nodes below them",
        asks="--nic-bandwidth, --oversubscription",
    ),
    TopologyFormat(
        name="simgrid",
        title="SimGrid's platform",
        read=f"{_HERE}.simgrid_platform:read",
        options=frozenset(),
        tells=_PLATFORM.search,
        says="one cluster: flat, fat tree, torus or dragonfly; or hosts, routers and routes of one link",
    ),
)
