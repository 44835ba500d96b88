"""Treadle's own topology file: JSON, version 1 with a row per node and link, version 2 by families."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import UNSET, Meta, UnsetType

from treadle.atomic import write_bytes
from treadle.errors import FormatError, TopologyError
from treadle.input_files import read_input_string
from treadle.topologies.families import families_of
from treadle.topologies.topology import LINK_COLUMNS, MAX_BANDWIDTH, NODE_COLUMNS, SWITCH_FLAGS, Topology
from treadle.typed_files import Count, Table, format_value, read_json, read_value

MAX_FILE_BYTES = 256 * 2**20
"""Largest topology file that is read."""

_VERSION = 1


def load_topology(path: str | Path) -> Topology:
    """Read a topology file.

    Parameters
    ----------
    path : str or Path
        JSON file, version 1 or 2, UTF-8, at most 256 MiB.

    Raises
    ------
    FormatError
        If the file cannot be read or is malformed, with line and column where they are known.
    """
    return parse_topology_file(read_input_string(path, MAX_FILE_BYTES), source=str(path))


def parse_topology_file(
    text: str, *, source: str = "", charge: Callable[[int], None] | None = None
) -> Topology:
    """Return the fabric that a file's text describes; FormatError, which names `source`, if it is malformed.

    `charge` is called with the bytes of memory that a fabric by families will take, before it is built.
    """
    if len(text) > _MAX_BY_FAMILIES or not _BY_FAMILIES.search(text):
        return _topology(read_json(text, _File, source=source), source)
    from treadle.topologies.family_files import read_families  # few fabrics are so large

    return read_families(text, source=source, charge=charge)


def save_topology(path: str | Path, topology: Topology) -> None:
    """Write a topology file; it appears whole or not at all. FormatError if it cannot be written."""
    write_bytes(path, dump_topology(topology).encode())


def topology_from_json(value: object, *, source: str = "") -> Topology:
    """Return the fabric that a parsed JSON object describes.

    Parameters
    ----------
    value : object
        As `parse_json` returns it. ``extensions`` objects are accepted and ignored.
    source : str, optional
        File name for messages.

    Raises
    ------
    FormatError
        For an unknown, missing or mistyped key, an unknown node, a repeated name or a value out of range.
    """
    return _topology(read_value(value, _File, source=source), source)


class _Node(Table, frozen=True):
    name: str
    kind: Literal["compute", "switch"]
    multicast: bool = False
    aggregation: bool = False
    turns_round: bool = False
    injection_bytes_per_s: Annotated[int, Meta(ge=1, le=2**63 - 1)] | UnsetType = UNSET
    extensions: dict[str, Any] | UnsetType = UNSET


class _Link(Table, frozen=True):
    tail: str
    head: str
    bandwidth_bytes_per_s: Annotated[int, Meta(ge=1, le=MAX_BANDWIDTH)]
    latency_ns: Count = 0
    extensions: dict[str, Any] | UnsetType = UNSET


class _File(Table, frozen=True):
    treadle: Literal["topology"]
    version: Literal[1]
    name: str
    nodes: list[_Node]
    links: list[_Link]
    extensions: dict[str, Any] | UnsetType = UNSET


_BY_FAMILIES = re.compile(r'"version"\s*:\s*2\b.*"families"|"families".*"version"\s*:\s*2\b', re.DOTALL)
_MAX_BY_FAMILIES = 2**16
"""Characters of the longest description by families."""


def _topology(file: _File, source: str) -> Topology:
    nodes, links = file.nodes, file.links
    index = {node.name: number for number, node in enumerate(nodes)}
    ends: dict[str, list[int]] = {"tail": [], "head": []}
    for number, link in enumerate(links):
        for end, found in ends.items():
            if (node := index.get(name := getattr(link, end))) is None:
                lost = f"no node is called {format_value(name)}"
                raise FormatError(f"links[{number}].{end}: {lost}", source=source)
            found.append(node)
    flags = {key: np.array([getattr(node, key) for node in nodes], dtype=bool) for key in SWITCH_FLAGS}
    caps = [node.injection_bytes_per_s or 0 for node in nodes]
    try:
        return Topology(
            name=file.name,
            node_names=tuple(node.name for node in nodes),
            is_compute=np.array([node.kind == "compute" for node in nodes], dtype=bool),
            tails=np.array(ends["tail"], dtype=np.int32),
            heads=np.array(ends["head"], dtype=np.int32),
            bandwidths=np.array([link.bandwidth_bytes_per_s for link in links], dtype=np.int64),
            latencies_ns=np.array([link.latency_ns for link in links], dtype=np.int64),
            injection_bytes_per_s=np.array(caps, dtype=np.int64),
            **flags,
        )
    except TopologyError as error:
        raise FormatError(str(error), source=source) from None


def dump_topology(topology: Topology) -> str:
    """Canonical text of a fabric: equal fabrics of one name give equal text, a node or link to a line."""
    return _head(topology.name) + _body(topology)


def topology_hash(topology: Topology) -> str:
    """Return the SHA-256 of the canonical text without the name, in hex: equal fabrics have equal hashes.

    Of a fabric with very many links it is that of its arrays, as their text would take seconds to write.
    """
    return _hash(topology, "" if topology.n_links > _MANY_LINKS else _body(topology))


def dump_with_hash(topology: Topology) -> tuple[str, str]:
    """Return `dump_topology`, or for very many links a description by families, and `topology_hash`."""
    families = families_of(topology)
    if topology.n_links > _MANY_LINKS and families is not None:
        from treadle.topologies.family_files import dump_families

        return dump_families(topology.name, families), _hash(topology, "")
    body = _body(topology)
    return _head(topology.name) + body, _hash(topology, body)


_MANY_LINKS = 2**20


def _hash(topology: Topology, body: str) -> str:
    """Return the hash of the canonical text, or of the arrays if links are very many."""
    if topology.n_links <= _MANY_LINKS:
        return hashlib.sha256((_head("") + body).encode()).hexdigest()
    digest = hashlib.sha256("\n".join(topology.node_names).encode())
    for key in (*NODE_COLUMNS, *LINK_COLUMNS):
        digest.update(memoryview(getattr(topology, key)))
    return digest.hexdigest()


def _head(name: str) -> str:
    quoted = json.dumps(name, ensure_ascii=False)
    return f'{{"treadle": "topology", "version": {_VERSION}, "name": {quoted},\n'


def _body(topology: Topology) -> str:
    """Return all of the canonical text but the name; keys at their default value are left out."""
    # a line break in a name is written as an escape, so that it can part the names here
    quoted = json.dumps(topology.node_names, ensure_ascii=False, separators=("\n", ":"))[1:-1].split("\n")
    kinds = np.where(topology.is_compute, '"compute"', '"switch"').tolist()
    nodes = [f'{{"name": {name}, "kind": {kind}' for name, kind in zip(quoted, kinds, strict=False)]
    for key in SWITCH_FLAGS:
        for node in np.flatnonzero(getattr(topology, key)).tolist():
            nodes[node] += f', "{key}": true'
    for node in np.flatnonzero(topology.injection_bytes_per_s).tolist():
        nodes[node] += f', "injection_bytes_per_s": {topology.injection_bytes_per_s[node]}'
    ends = zip(topology.tails.tolist(), topology.heads.tolist(), topology.bandwidths.tolist(), strict=True)
    links = [
        f'{{"tail": {quoted[tail]}, "head": {quoted[head]}, "bandwidth_bytes_per_s": {bandwidth}'
        for tail, head, bandwidth in ends
    ]
    for link in np.flatnonzero(topology.latencies_ns).tolist():
        links[link] += f', "latency_ns": {topology.latencies_ns[link]}'
    return f' "nodes": {_lines(nodes)},\n "links": {_lines(links)}}}\n'


def _lines(objects: list[str]) -> str:
    """Return a list of objects that still lack their closing brace."""
    return "[\n  " + "},\n  ".join(objects) + "}\n ]" if objects else "[]"
