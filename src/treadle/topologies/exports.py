"""Fabrics as text that graph tools read, and that `readers.graphs` reads back: GraphML and edge lists."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from lxml import etree

from treadle.errors import FormatError
from treadle.topologies.files import dump_topology
from treadle.topologies.topology import SWITCH_FLAGS, Topology, link_rows, node_attributes

_NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
_KEYS = (
    ("node", "kind", "string"),
    *(("node", flag, "boolean") for flag in SWITCH_FLAGS),
    ("node", "injection_bytes_per_s", "long"),
    ("edge", "bandwidth_bytes_per_s", "long"),
    ("edge", "latency_ns", "long"),
)
_PLAIN = re.compile(r"[\w.()/+*-]+")


def to_graphml(topology: Topology) -> str:
    """Format a fabric as GraphML; FormatError if a name is not valid in XML."""
    root = etree.Element(f"{{{_NAMESPACE}}}graphml", nsmap={None: _NAMESPACE})  # type: ignore[dict-item]
    for of, name, kind in _KEYS:
        etree.SubElement(root, "key", {"id": name, "for": of, "attr.name": name, "attr.type": kind})
    try:
        graph = etree.SubElement(root, "graph", {"id": topology.name, "edgedefault": "directed"})
        for node, name in enumerate(topology.node_names):
            _add_data(etree.SubElement(graph, "node", {"id": name}), node_attributes(topology, node))
    except ValueError:
        raise FormatError(f"{topology.name[:40]!r}: a name has a character that XML cannot hold") from None
    for link, (tail, head, bandwidth, latency) in enumerate(link_rows(topology)):
        ends = {"source": topology.node_names[tail], "target": topology.node_names[head]}
        edge = etree.SubElement(graph, "edge", {"id": str(link), **ends})
        _add_data(edge, {"bandwidth_bytes_per_s": bandwidth} | ({"latency_ns": latency} if latency else {}))
    etree.indent(root)
    return etree.tostring(root, encoding="unicode") + "\n"


def _add_data(element: etree._Element, values: Mapping[str, object]) -> None:
    for key, value in values.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        etree.SubElement(element, "data", {"key": key}).text = text


def to_edge_list(topology: Topology) -> str:
    """Return a fabric as an edge list: its nodes in comments, then a directed link a line."""
    lines = ["# directed"]
    if topology.name.strip() and topology.name.isprintable():
        lines.insert(0, f"# name: {topology.name.strip()}")
    names = [name if _PLAIN.fullmatch(name) else json.dumps(name) for name in topology.node_names]
    for node, name in enumerate(names):
        found = node_attributes(topology, node)
        kind = found.pop("kind")
        more = [key if value is True else f"{key}={value}" for key, value in found.items()]
        lines.append(" ".join(["# node", name, kind, *more]))
    for tail, head, bandwidth, latency in link_rows(topology):
        line = f"{names[tail]} {names[head]} {bandwidth}B/s"
        lines.append(f"{line} {latency}ns" if latency else line)
    return "\n".join(lines) + "\n"


EXPORTS: Mapping[str, Callable[[Topology], str]] = MappingProxyType(
    {"json": dump_topology, "graphml": to_graphml, "edge-list": to_edge_list}
)
"""Export formats of a fabric, by name."""
EXTENSIONS: Mapping[str, str] = MappingProxyType(
    {".json": "json", ".graphml": "graphml", ".edgelist": "edge-list", ".edges": "edge-list"}
)
"""Names of `EXPORTS` by a file's extension."""
