"""Treadle's own topology file: JSON, version 1."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from treadle.atomic import write_bytes
from treadle.errors import FormatError, TopologyError
from treadle.input_files import parse_json, read_input_text
from treadle.topologies.naming import is_one_line
from treadle.topologies.topology import MAX_BANDWIDTH, Topology

MAX_FILE_BYTES = 256 * 2**20
"""Largest topology file that is read."""

_VERSION = 1
_CANONICAL_HEAD = re.compile(r'\{"treadle": "topology", "version": 1, "name": "([^"\\\n]*)",\n')
_CANONICAL_NODE = re.compile(
    r'  \{"name": "([^"\\\n]*)", "kind": "(compute|switch)"(, "multicast": true)?(, "aggregation": true)?'
    r'(, "turns_round": true)?(?:, "injection_bytes_per_s": ([0-9]{1,19}))?\}'
)
_CANONICAL_LINK = re.compile(
    r'  \{"tail": "([^"\\\n]*)", "head": "([^"\\\n]*)", "bandwidth_bytes_per_s": ([0-9]{1,16})'
    r'(?:, "latency_ns": ([0-9]{1,19}))?\}'
)
_MAX_INT64 = 2**63 - 1
_FILE_KEYS = {"treadle", "version", "name", "nodes", "links"}
_NODE_KEYS = {"name", "kind"}
_NODE_OPTIONAL = {"multicast", "aggregation", "turns_round", "injection_bytes_per_s", "extensions"}
_LINK_KEYS = {"tail", "head", "bandwidth_bytes_per_s"}
_LINK_OPTIONAL = {"latency_ns", "extensions"}


def load_topology(path: str | Path) -> Topology:
    """Read a topology file.

    Parameters
    ----------
    path : str or Path
        JSON file, version 1, UTF-8, at most 256 MiB.

    Raises
    ------
    FormatError
        If the file cannot be read or is malformed, with line and column where they are known.
    """
    return topology_from_text(read_input_text(path, MAX_FILE_BYTES), source=str(path))


def topology_from_text(text: str, *, source: str = "") -> Topology:
    """The fabric that a file's text describes; FormatError, which names `source`, if it is malformed."""
    found = _canonical(text)
    return topology_from_json(parse_json(text, source=source), source=source) if found is None else found[0]


def save_topology(path: str | Path, topology: Topology) -> None:
    """Write a topology file; it appears whole or not at all. FormatError if it cannot be written."""
    write_bytes(path, dump_topology(topology).encode())


def topology_from_json(value: Any, *, source: str = "") -> Topology:
    """The fabric that a parsed JSON object describes.

    Parameters
    ----------
    value : object
        As `parse_json` returns it. ``extensions`` objects are accepted and left aside.
    source : str, optional
        File name for messages.

    Raises
    ------
    FormatError
        For an unknown, missing or mistyped key, an unknown node, a repeated name or a value out of range.
    """
    reader = _Reader(source)
    document = reader.object(value, "file", _FILE_KEYS, {"extensions"})
    if document["treadle"] != "topology":
        raise reader.error("treadle", f'expected "topology", found {_shown(document["treadle"])}')
    version = document["version"]
    if not isinstance(version, int) or isinstance(version, bool) or version != _VERSION:
        raise reader.error("version", f"expected {_VERSION}, found {_shown(version)}")
    name = reader.text(document["name"], "name")
    nodes = reader.list(document["nodes"], "nodes")
    index, columns = reader.nodes(nodes)
    links = reader.links(reader.list(document["links"], "links"), index)
    try:
        return Topology(name=name, node_names=tuple(index), **columns, **links)
    except TopologyError as error:
        raise FormatError(str(error), source=source) from None


class _Reader:
    """Checks JSON values; every error names the place, such as ``links[3].head``."""

    def __init__(self, source: str) -> None:
        self._source = source

    def error(self, place: str, message: str) -> FormatError:
        return FormatError(f"{place}: {message}", source=self._source)

    def object(self, value: Any, place: str, required: set[str], optional: set[str]) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.error(place, f"expected an object, found {_kind(value)}")
        for key in value:
            if key not in required and key not in optional:
                known = ", ".join(sorted(required | optional))
                raise self.error(place, f"unknown key {_shown(key)}; known are {known}")
        for key in sorted(required):
            if key not in value:
                raise self.error(place, f"key {key!r} is missing")
        if not isinstance(value.get("extensions", {}), dict):
            raise self.error(f"{place}.extensions", f"expected an object, found {_kind(value['extensions'])}")
        return value

    def list(self, value: Any, place: str) -> list[Any]:
        if not isinstance(value, list):
            raise self.error(place, f"expected a list, found {_kind(value)}")
        return value

    def text(self, value: Any, place: str) -> str:
        if not isinstance(value, str):
            raise self.error(place, f"expected a string, found {_kind(value)}")
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise self.error(place, "a lone surrogate is not text")
        if not is_one_line(value):
            raise self.error(place, f"expected one line without control characters, found {_shown(value)}")
        return value

    def flag(self, value: Any, place: str) -> bool:
        if not isinstance(value, bool):
            raise self.error(place, f"expected true or false, found {_kind(value)}")
        return value

    def integer(self, value: Any, place: str, least: int, most: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(place, f"expected an integer, found {_kind(value)}")
        if not least <= value <= most:
            raise self.error(place, f"expected {least} to {most}, found {value}")
        return value

    def nodes(self, values: Any) -> tuple[dict[str, int], dict[str, Any]]:
        """Index of each name, and the node columns of a Topology."""
        index: dict[str, int] = {}
        rows: list[tuple[bool, bool, bool, bool, int]] = []
        for i, value in enumerate(values):
            place = f"nodes[{i}]"
            node = self.object(value, place, _NODE_KEYS, _NODE_OPTIONAL)
            name = self.text(node["name"], f"{place}.name")
            if not name or name in index:
                reason = "is used twice; names must be unique" if name else "is empty"
                raise self.error(f"{place}.name", f"{_shown(name)} {reason}")
            if node["kind"] not in ("compute", "switch"):
                found = _shown(node["kind"])
                raise self.error(f"{place}.kind", f'expected "compute" or "switch", found {found}')
            index[name] = i
            rows.append(
                (
                    node["kind"] == "compute",
                    self.flag(node.get("multicast", False), f"{place}.multicast"),
                    self.flag(node.get("aggregation", False), f"{place}.aggregation"),
                    self.flag(node.get("turns_round", False), f"{place}.turns_round"),
                    self._injection(node, place),
                )
            )
        keys = ("is_compute", "multicast", "aggregation", "turns_round", "injection_bytes_per_s")
        types = (np.bool_, np.bool_, np.bool_, np.bool_, np.int64)
        return index, _columns(keys, types, rows)

    def _injection(self, node: Mapping[str, Any], place: str) -> int:
        if "injection_bytes_per_s" not in node:
            return 0
        return self.integer(node["injection_bytes_per_s"], f"{place}.injection_bytes_per_s", 1, _MAX_INT64)

    def links(self, values: Any, index: Mapping[str, int]) -> dict[str, Any]:
        """Link columns of a Topology."""
        rows: list[tuple[int, int, int, int]] = []
        for i, value in enumerate(values):
            place = f"links[{i}]"
            link = self.object(value, place, _LINK_KEYS, _LINK_OPTIONAL)
            ends: list[int] = []
            for key in ("tail", "head"):
                name = self.text(link[key], f"{place}.{key}")
                if name not in index:
                    raise self.error(f"{place}.{key}", f"no node is called {_shown(name)}")
                ends.append(index[name])
            bandwidth = self.integer(
                link["bandwidth_bytes_per_s"], f"{place}.bandwidth_bytes_per_s", 1, MAX_BANDWIDTH
            )
            latency = self.integer(link.get("latency_ns", 0), f"{place}.latency_ns", 0, _MAX_INT64)
            rows.append((ends[0], ends[1], bandwidth, latency))
        keys = ("tails", "heads", "bandwidths", "latencies_ns")
        return _columns(keys, (np.int32, np.int32, np.int64, np.int64), rows)


def _columns(
    keys: tuple[str, ...], types: tuple[type[np.generic], ...], rows: Sequence[tuple[int, ...]]
) -> dict[str, Any]:
    columns = list(zip(*rows, strict=True)) or [()] * len(keys)
    return {key: np.array(column, dtype=kind) for key, kind, column in zip(keys, types, columns, strict=True)}


def _kind(value: Any) -> str:
    """A JSON value as messages call it."""
    if value is None or isinstance(value, bool | int | float):
        return _shown(value)
    return "a string" if isinstance(value, str) else "a list" if isinstance(value, list) else "an object"


def _shown(value: Any) -> str:
    text = json.dumps(value) if isinstance(value, str | bool | int | float | None) else _kind(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def dump_topology(topology: Topology) -> str:
    """Canonical text of a fabric: equal fabrics of one name give equal text, a node or link to a line."""
    return _head(topology.name) + _body(topology)


def topology_hash(topology: Topology) -> str:
    """SHA-256 of the canonical text without the name, in hex: equal fabrics have equal hashes."""
    return _hash(_body(topology))


def dump_with_hash(topology: Topology) -> tuple[str, str]:
    """`dump_topology` and `topology_hash` in one go."""
    body = _body(topology)
    return _head(topology.name) + body, _hash(body)


def parse_with_hash(text: str) -> tuple[Topology, str]:
    """The fabric that a text describes, and its `topology_hash`; FormatError as `topology_from_json`."""
    found = parse_canonical(text)
    if found is None:
        topology = topology_from_json(parse_json(text))
        return topology, topology_hash(topology)
    return found


def parse_canonical(text: str) -> tuple[Topology, str] | None:
    """As `parse_with_hash`, of a text that `dump_topology` wrote; None for any other, well-formed or not."""
    found = _canonical(text)
    return None if found is None else (found[0], _hash(found[1]))


def _canonical(text: str) -> tuple[Topology, str] | None:
    """The fabric of a canonical text, and its `_body`; None for any other text, well-formed or not.

    Read by two patterns, several times as fast as JSON. Whatever they find is right if, written out again,
    it gives the very text.
    """
    head = _CANONICAL_HEAD.match(text)
    start = text.find('\n "links": [')
    if head is None or start < 0:
        return None
    nodes = _CANONICAL_NODE.findall(text, head.end(), start)
    links = _CANONICAL_LINK.findall(text, start)
    names, kinds, multicast, aggregation, turns, injection = zip(*nodes, strict=True) if nodes else [()] * 6
    tails, heads, bandwidths, latencies = zip(*links, strict=True) if links else [()] * 4
    index = {name: i for i, name in enumerate(names)}
    numbers = {text: int(text or 0) for text in {*bandwidths, *latencies, *injection}}
    try:
        topology = Topology(
            name=head[1],
            node_names=names,
            is_compute=np.array(list(map("compute".__eq__, kinds)), dtype=bool),
            tails=np.array(list(map(index.__getitem__, tails)), dtype=np.int32),
            heads=np.array(list(map(index.__getitem__, heads)), dtype=np.int32),
            bandwidths=np.array(list(map(numbers.__getitem__, bandwidths)), dtype=np.int64),
            latencies_ns=np.array(list(map(numbers.__getitem__, latencies)), dtype=np.int64),
            multicast=np.array(list(map(bool, multicast)), dtype=bool),
            aggregation=np.array(list(map(bool, aggregation)), dtype=bool),
            turns_round=np.array(list(map(bool, turns)), dtype=bool),
            injection_bytes_per_s=np.array(list(map(numbers.__getitem__, injection)), dtype=np.int64),
        )
    except (KeyError, OverflowError, TopologyError):
        return None
    body = _body(topology)
    return (topology, body) if text == _head(topology.name) + body else None


def _hash(body: str) -> str:
    digest = hashlib.sha256(_head("").encode())
    digest.update(body.encode())
    return digest.hexdigest()


def _head(name: str) -> str:
    quoted = json.dumps(name, ensure_ascii=False)
    return f'{{"treadle": "topology", "version": {_VERSION}, "name": {quoted},\n'


def _body(topology: Topology) -> str:
    """All of the canonical text but the name; keys at their default value are left out."""
    # a line break in a name is written as an escape, so that it can part the names here
    quoted = json.dumps(topology.node_names, ensure_ascii=False, separators=("\n", ":"))[1:-1].split("\n")
    kinds = np.where(topology.is_compute, '"compute"', '"switch"').tolist()
    nodes = [f'{{"name": {name}, "kind": {kind}' for name, kind in zip(quoted, kinds, strict=False)]
    for key in ("multicast", "aggregation", "turns_round"):
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
    """A list of objects that still lack their closing brace."""
    return "[\n  " + "},\n  ".join(objects) + "}\n ]" if objects else "[]"
