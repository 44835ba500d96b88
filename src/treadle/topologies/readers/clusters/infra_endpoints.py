"""The words of an InfraGraph file: devices, instances, links, endpoints in slice or dotted notation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

from treadle.topologies.readers.checked_values import (
    MAX_IMPORTED_NODES,
    check_import_size,
    format_value,
    integer,
    integer_bandwidth,
    integer_latency,
    mapping,
    number,
    unexpected,
)
from treadle.topologies.readers.imported import SourceFile

_NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
_PART = re.compile(rf"({_NAME})(?:\[([0-9]{{0,7}})(:?)([0-9]{{0,7}})(?::([0-9]{{1,7}}))?\])?")
_DOTTED_DEVICE = re.compile(rf"({_NAME})\.([0-9]{{1,7}})\.({_NAME})\.({_NAME})\.([0-9]{{1,7}})")
_END = rf"({_NAME})\.([0-9]{{1,7}})\.({_NAME})\.([0-9]{{1,7}})"
_DOTTED = re.compile(rf"{_END}\.({_NAME})\.{_END}")
_UNITS = {
    "gigabits_per_second": Fraction(10**9, 8),
    "gigabytes_per_second": Fraction(10**9),
    "giga_bits_per_second": Fraction(10**9, 8),
    "giga_bytes_per_second": Fraction(10**9),
}
_TIMES = {"ms": Fraction(10**6), "us": Fraction(10**3), "ns": Fraction(1)}
_TYPES = {"xpu", "cpu", "nic", "memory", "port", "switch", "device", "custom"}


@dataclass(frozen=True)
class Edge:
    """Endpoints that are joined, each with each or one with one."""

    ones: tuple[str, ...]
    others: tuple[str, ...]
    each_with_each: bool
    link: str
    place: str

    @property
    def n_pairs(self) -> int:
        """Largest number of links."""
        return len(self.ones) * len(self.others) if self.each_with_each else len(self.ones)

    def nodes(self) -> Iterator[list[str]]:
        """Yield the parts of each endpoint's name."""
        return (end.split(".") for end in (*self.ones, *self.others))

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield ends of each link; where both sides name the same nodes, each pair once."""
        if not self.each_with_each:
            yield from ((a, b) for a, b in zip(self.ones, self.others, strict=True) if a != b)
            return
        both = set(self.ones) & set(self.others)
        for a, b in product(self.ones, self.others):
            if a != b and not (a in both and b in both and a > b):
                yield a, b


@dataclass
class Device:
    """Components with their count and type, links by name, and edges within."""

    name: str
    components: list[tuple[str, int, str]]
    links: Mapping[str, Any]
    edges: list[Edge] = field(default_factory=list)

    @property
    def n_nodes(self) -> int:
        """Components in all."""
        return sum(count for _, count, _ in self.components)


@dataclass
class Infrastructure:
    """All of a file. Instances have the name of their device and a count."""

    source: SourceFile
    name: str
    devices: dict[str, Device]
    instances: dict[str, tuple[str, int]]
    links: Mapping[str, Any]
    edges: list[Edge]


def read_infrastructure(source: SourceFile, document: Any) -> Infrastructure:
    """Return the parts of a file; FormatError that names the place of what is malformed."""
    top = document.get("infrastructure", document) if isinstance(document, dict) else None
    words = _Words(source)
    fields = {"name", "description", "devices", "links", "instances", "edges", "connections", "annotations"}
    body = mapping(source, "infrastructure", top, fields)
    devices: dict[str, Device] = {}
    for place, value in words.rows(body, "devices"):
        device = _device(words, value, place)
        if devices.setdefault(device.name, device) is not device:
            raise source.error(f"{place}: device {format_value(device.name)} is described twice")
    rows = words.rows(body, "instances")
    if not rows:
        raise source.error("has no instances; a library of devices is not a fabric")
    links = _links(words, body)
    dotted = [_dotted(words, text, place) for place, text in words.rows(body, "connections")]
    instances: dict[str, tuple[str, int]] = {}
    for place, value in rows:
        row = mapping(source, place, value, {"name", "description", "device", "count"})
        name = words.name(row, place)
        count = words.count(row, place, name, dotted)
        if name in instances:
            raise source.error(f"{place}: {format_value(name)} is named twice")
        instances[name] = (words.string(row.get("device"), f"{place}.device"), count)
    title = words.string(body["name"], "name") if body.get("name") else source.stem
    if not title.isprintable():
        raise source.error("name: expected one line without control characters")
    found = Infrastructure(source, title, devices, instances, links, dotted)
    for name, (device_name, _) in instances.items():
        known = devices.get(device_name)
        if known is not None and any(kind == "device" for _, _, kind in known.components):
            nested = f"devices within devices are not read; write {device_name} out"
            raise source.error(f"instances {name}: {nested}")
    for place, value in words.rows(body, "edges"):
        found.edges.append(_edge(words, value, place, partial(_instance_ends, words, found)))
    return found


class _Words:
    """Typed access to values; every error names the place."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self._endpoints = 0

    def count_endpoints(self, more: int) -> None:
        """Reject a file whose edges name far more endpoints than a fabric has, before they are listed."""
        self._endpoints += more
        check_import_size(self.source, links=self._endpoints)

    def rows(self, body: Mapping[str, Any], key: str, above: str = "") -> list[tuple[str, Any]]:
        """Return the items of a list, each with its place."""
        value = body.get(key, [])
        if not isinstance(value, list):
            raise unexpected(self.source, key, "a list", value)
        return [(f"{above}{key}[{k}]", item) for k, item in enumerate(value)]

    def string(self, value: Any, place: str) -> str:
        if not isinstance(value, str) or not value:
            raise unexpected(self.source, place, "text", value)
        return value

    def name(self, body: Mapping[str, Any], place: str) -> str:
        name = self.string(body.get("name"), f"{place}.name")
        if not re.fullmatch(r"[\w-]{1,80}", name):
            raise unexpected(self.source, f"{place}.name", "letters, digits, _ and -", name)
        return name

    def count(self, body: Mapping[str, Any], place: str, name: str, dotted: Iterable[Edge]) -> int:
        """Return the count of a named item; by default as many as connections use."""
        if "count" in body:
            return integer(self.source, f"{place}.count", body["count"], 1, MAX_IMPORTED_NODES)
        ends = (end for edge in dotted for end in edge.nodes())
        return 1 + max((int(index) for title, index, *_ in ends if title == name), default=0)


def _links(words: _Words, body: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for at, value in words.rows(body, "links", above):
        row = mapping(words.source, at, value, {"name", "description", "physical", "bandwidth", "latency"})
        name = words.name(row, at)
        if name in found:
            raise words.source.error(f"{at}: link {format_value(name)} is described twice")
        physical = row.get("physical") or {key: row[key] for key in ("bandwidth", "latency") if key in row}
        found[name] = mapping(words.source, f"{at}.physical", physical, {"bandwidth", "latency"})
    return found


def link_speed(source: SourceFile, links: Mapping[str, Any], name: str) -> tuple[int, int]:
    """Return bytes/s and nanoseconds of a link by its name; 0 bytes/s where the file says none.

    Transfers per second are none: the file does not say how many lanes a link has.
    """
    if name not in links:
        raise source.error(f"link {format_value(name)} is used but not described")
    found = {"bandwidth": 0, "latency": 0}
    rules = (("bandwidth", _UNITS, integer_bandwidth), ("latency", _TIMES, integer_latency))
    for key, units, rounded in rules:
        row = links[name].get(key)
        choice = row.get("choice") if isinstance(row, dict) else None
        place = f"link {name}.{key}"
        if not row or (key == "bandwidth" and isinstance(choice, str) and "transfers" in choice):
            continue
        if choice not in units or choice not in row:
            raise unexpected(source, place, f"a choice of {', '.join(units)}, and its value", choice)
        found[key] = rounded(source, place, number(source, place, row[choice]) * units[choice])
    return found["bandwidth"], found["latency"]


def _device(words: _Words, value: Any, place: str) -> Device:
    source, above = words.source, f"{place}."
    fields = {"name", "description", "components", "links", "edges", "connections"}
    body = mapping(source, place, value, fields)
    name = words.name(body, place)
    dotted = [_dotted(words, text, at, inside=True) for at, text in words.rows(body, "connections", above)]
    components: list[tuple[str, int, str]] = []
    sizes: dict[str, int] = {}
    for at, row in words.rows(body, "components", above):
        known = {"name", "description", "count", "choice", "type", "external", "components", *_TYPES}
        component = mapping(source, at, row, known)
        title = words.name(component, at)
        kind = component.get("choice", component.get("type", ""))
        if kind not in _TYPES:
            raise unexpected(source, at, f"a choice of {', '.join(sorted(_TYPES))}", kind)
        count = words.count(component, at, title, dotted)
        if title in sizes:
            raise source.error(f"{at}: component {format_value(title)} is named twice")
        sizes[title] = count
        components.append((title, count, str(kind)))
    device = Device(name, components, _links(words, body, above), dotted)
    for edge in dotted:
        for title, index in edge.nodes():
            if int(index) >= sizes.get(title, 0):
                raise source.error(f"{edge.place}: there is no {title}.{index}")
    for at, row in words.rows(body, "edges", above):
        device.edges.append(_edge(words, row, at, partial(_device_ends, words, sizes)))
    return device


def _edge(words: _Words, value: Any, place: str, expand: Callable[[dict[str, Any], str], list[str]]) -> Edge:
    source = words.source
    row = mapping(source, place, value, {"ep1", "ep2", "scheme", "link", "description"})
    known, ends = {"device", "component", "instance"}, []
    for key in ("ep1", "ep2"):
        at = f"{place}.{key}"
        ends.append(expand(mapping(source, at, row.get(key), known), at))
    ones, others = ends
    scheme = row.get("scheme")
    if scheme not in ("one2one", "many2many"):
        raise unexpected(source, f"{place}.scheme", "one2one or many2many", scheme)
    if scheme == "one2one" and len(ones) != len(others):
        raise source.error(f"{place}: one2one joins {len(ones)} endpoints with {len(others)}")
    link = words.string(row.get("link"), f"{place}.link")
    return Edge(tuple(ones), tuple(others), scheme == "many2many", link, place)


def _indices(words: _Words, text: Any, place: str, sizes: Mapping[str, int]) -> tuple[str, range]:
    """Return the name and indices of ``nic``, ``nic[1]`` or ``nic[0:4]``."""
    match = _PART.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise unexpected(words.source, place, "a name with a slice such as nic[0:4]", text)
    name, first, colon, last, step = match.groups()
    if name not in sizes:
        raise words.source.error(f"{place}: there is no {format_value(name)}")
    if "[" not in text:
        return name, range(sizes[name])
    if not colon and (last or not first):
        raise unexpected(words.source, place, "a slice such as [0:4]", text)
    start = int(first or 0)
    stop = int(last or sizes[name]) if colon else start + 1
    if not start < stop <= sizes[name] or not int(step or 1):
        raise words.source.error(f"{place}: {format_value(text)} leaves the {sizes[name]} that there are")
    return name, range(start, stop, int(step or 1))


def _device_ends(words: _Words, sizes: Mapping[str, int], end: Mapping[str, Any], place: str) -> list[str]:
    if end.get("device"):
        raise words.source.error(f"{place}: devices within devices are not read; write the device out")
    name, indices = _indices(words, end.get("component"), place, sizes)
    words.count_endpoints(len(indices))
    return [f"{name}.{k}" for k in indices]


def _instance_ends(words: _Words, found: Infrastructure, end: Mapping[str, Any], place: str) -> list[str]:
    counts = {name: count for name, (_, count) in found.instances.items()}
    name, indices = _indices(words, end.get("instance"), f"{place}.instance", counts)
    device_name, component = found.instances[name][0], end.get("component")
    if device_name in found.devices:
        sizes = {title: count for title, count, _ in found.devices[device_name].components}
    else:  # how many there are only the device could say
        match = _PART.fullmatch(component) if isinstance(component, str) else None
        if match is None or (match[2] is None and match[4] is None) or (match[3] and not match[4]):
            raise words.source.error(f"{place}: device {format_value(device_name)} is not in the file")
        sizes = {match[1]: max(int(match[2] or 0) + 1, int(match[4] or 0))}
    title, places = _indices(words, component, f"{place}.component", sizes)
    words.count_endpoints(len(indices) * len(places))
    return [f"{name}.{k}.{title}.{j}" for k in indices for j in places]


def _dotted(words: _Words, text: Any, place: str, *, inside: bool = False) -> Edge:
    """Return a connection in one line; `inside` a device it has no instances."""
    match = (_DOTTED_DEVICE if inside else _DOTTED).fullmatch(text) if isinstance(text, str) else None
    if match is None:
        example = "xpu.0.pcie.nic.0" if inside else "server.0.nic.0.eth.leaf.0.port.1"
        raise unexpected(words.source, place, f"a connection such as {example}", text)
    # indices without zeros in front
    parts = [str(int(part)) if part.isdecimal() else part for part in match.groups()]
    middle = 2 if inside else 4
    ones, others = ".".join(parts[:middle]), ".".join(parts[middle + 1 :])
    return Edge((ones,), (others,), True, parts[middle], place)
