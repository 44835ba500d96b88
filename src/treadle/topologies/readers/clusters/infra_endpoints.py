"""The words of an InfraGraph file: devices, instances, links, endpoints in slice or dotted notation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

from treadle.topologies.readers.figures import (
    MAX_IMPORTED_NODES,
    check_import_size,
    number,
    shown,
    whole,
    whole_bandwidth,
    whole_latency,
)
from treadle.topologies.readers.imported import SourceText

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
        """How many links at most."""
        return len(self.ones) * len(self.others) if self.each_with_each else len(self.ones)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Ends of each link; where both sides name the same nodes, each pair once."""
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

    source: SourceText
    name: str
    devices: dict[str, Device]
    instances: dict[str, tuple[str, int]]
    links: Mapping[str, Any]
    edges: list[Edge]

    def components_used(self, instance: str) -> set[str]:
        """Names of the components at which links of an instance end."""
        ends = (end.split(".") for edge in self.edges for end in (*edge.ones, *edge.others))
        return {parts[2] for parts in ends if parts[0] == instance}


def read_infrastructure(source: SourceText, document: Any) -> Infrastructure:
    """The parts of a file; FormatError that names the place of what is malformed."""
    top = document.get("infrastructure", document) if isinstance(document, dict) else None
    words = _Words(source)
    fields = {"name", "description", "devices", "links", "instances", "edges", "connections", "annotations"}
    body = words.mapping(top, "infrastructure", fields)
    devices: dict[str, Device] = {}
    for k, value in enumerate(words.rows(body, "devices")):
        device = _device(words, value, f"devices[{k}]")
        if devices.setdefault(device.name, device) is not device:
            raise source.error(f"devices[{k}]: device {shown(device.name)} is described twice")
    rows = list(enumerate(words.rows(body, "instances")))
    if not rows:
        raise source.error("has no instances; a library of devices is no fabric")
    links = _links(words, body, "links")
    dotted = [
        _dotted(words, text, f"connections[{k}]") for k, text in enumerate(words.rows(body, "connections"))
    ]
    instances: dict[str, tuple[str, int]] = {}
    for k, value in rows:
        row = words.mapping(value, f"instances[{k}]", {"name", "description", "device", "count"})
        name = words.name(row, f"instances[{k}]")
        used = [
            int(e[1])
            for edge in dotted
            for end in (*edge.ones, *edge.others)
            if (e := end.split("."))[0] == name
        ]
        count = max(used, default=0) + 1
        if "count" in row:
            count = whole(source, f"instances[{k}].count", row["count"], 1, MAX_IMPORTED_NODES)
        if name in instances:
            raise source.error(f"instances[{k}]: {shown(name)} is named twice")
        instances[name] = (words.text(row.get("device"), f"instances[{k}].device"), count)
    found = Infrastructure(source, _title(words, body), devices, instances, links, dotted)
    _check_instances(found)
    for k, value in enumerate(words.rows(body, "edges")):
        found.edges.append(
            _edge(words, value, f"edges[{k}]", lambda end, at: _instance_ends(words, found, end, at))
        )
    return found


def _title(words: _Words, body: Mapping[str, Any]) -> str:
    name = words.text(body["name"], "name") if body.get("name") else words.source.stem
    if not name.isprintable():
        raise words.source.error("name: expected one line without control characters")
    return name


def _check_instances(found: Infrastructure) -> None:
    for name, (device, _) in found.instances.items():
        known = found.devices.get(device)
        if known is not None and any(kind == "device" for _, _, kind in known.components):
            raise found.source.error(
                f"instances {name}: devices within devices are not read; write {device} out"
            )


class _Words:
    """Typed access to values; every error names the place."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self._endpoints = 0

    def count_endpoints(self, more: int) -> None:
        """Refuse a file whose edges name far more endpoints than a fabric has, before they are listed."""
        self._endpoints += more
        check_import_size(self.source, links=self._endpoints)

    def mapping(self, value: Any, place: str, known: set[str]) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.source.error(f"{place}: expected a mapping, found {shown(value)}")
        for key in value:
            if key not in known:
                raise self.source.error(
                    f"{place}: unknown key {shown(key)}; known are {', '.join(sorted(known))}"
                )
        return value

    def rows(self, body: Mapping[str, Any], key: str) -> list[Any]:
        value = body.get(key, [])
        if not isinstance(value, list):
            raise self.source.error(f"{key}: expected a list, found {shown(value)}")
        return value

    def text(self, value: Any, place: str) -> str:
        if not isinstance(value, str) or not value:
            raise self.source.error(f"{place}: expected text, found {shown(value)}")
        return value

    def name(self, body: Mapping[str, Any], place: str) -> str:
        name = self.text(body.get("name"), f"{place}.name")
        if not re.fullmatch(r"[\w-]{1,80}", name):
            raise self.source.error(f"{place}.name: expected letters, digits, _ and -, found {shown(name)}")
        return name


def _links(words: _Words, body: Mapping[str, Any], place: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for k, value in enumerate(words.rows(body, "links")):
        at = f"{place}[{k}]"
        row = words.mapping(value, at, {"name", "description", "physical", "bandwidth", "latency"})
        name = words.name(row, at)
        if name in found:
            raise words.source.error(f"{at}: link {shown(name)} is described twice")
        physical = row.get("physical") or {key: row[key] for key in ("bandwidth", "latency") if key in row}
        found[name] = words.mapping(physical, f"{at}.physical", {"bandwidth", "latency"})
    return found


def link_speed(source: SourceText, links: Mapping[str, Any], name: str) -> tuple[int, int]:
    """Bytes/s and nanoseconds of a link by its name; 0 bytes/s where the file says none.

    Transfers per second are none: the file does not say how many lanes a link has.
    """
    if name not in links:
        raise source.error(f"link {shown(name)} is used but not described")
    speed = wait = 0
    for key, units in (("bandwidth", _UNITS), ("latency", _TIMES)):
        row = links[name].get(key)
        if not row:
            continue
        choice = row.get("choice") if isinstance(row, dict) else None
        place = f"link {name}.{key}"
        if key == "bandwidth" and isinstance(choice, str) and "transfers" in choice:
            continue
        if choice not in units or choice not in row:
            known = ", ".join(units)
            raise source.error(f"{place}: expected a choice of {known}, and its value, found {shown(choice)}")
        value = number(source, place, row[choice]) * units[choice]
        if key == "bandwidth":
            speed = whole_bandwidth(source, place, value)
        else:
            wait = whole_latency(source, place, value)
    return speed, wait


def _device(words: _Words, value: Any, place: str) -> Device:
    fields = {"name", "description", "components", "links", "edges", "connections"}
    body = words.mapping(value, place, fields)
    name = words.name(body, place)
    texts = words.rows(body, "connections")
    dotted = [_dotted(words, text, f"{place}.connections[{k}]", inside=True) for k, text in enumerate(texts)]
    components: list[tuple[str, int, str]] = []
    for k, row in enumerate(words.rows(body, "components")):
        at = f"{place}.components[{k}]"
        known = {"name", "description", "count", "choice", "type", "external", "components", *_TYPES}
        component = words.mapping(row, at, known)
        title = words.name(component, at)
        kind = component.get("choice", component.get("type", ""))
        if kind not in _TYPES:
            raise words.source.error(
                f"{at}: expected a choice of {', '.join(sorted(_TYPES))}, found {shown(kind)}"
            )
        used = [
            int(end.split(".")[1])
            for edge in dotted
            for end in (*edge.ones, *edge.others)
            if end.split(".")[0] == title
        ]
        count = max(used, default=0) + 1
        if "count" in component:
            count = whole(words.source, f"{at}.count", component["count"], 1, MAX_IMPORTED_NODES)
        if title in {name for name, _, _ in components}:
            raise words.source.error(f"{at}: component {shown(title)} is named twice")
        components.append((title, count, str(kind)))
    device = Device(name, components, _links(words, body, f"{place}.links"), dotted)
    sizes = {title: count for title, count, _ in components}
    for edge in dotted:
        for end in (*edge.ones, *edge.others):
            title, index = end.split(".")
            if int(index) >= sizes.get(title, 0):
                raise words.source.error(f"{edge.place}: there is no {end}")
    for k, row in enumerate(words.rows(body, "edges")):
        device.edges.append(
            _edge(words, row, f"{place}.edges[{k}]", lambda end, at: _device_ends(words, sizes, end, at))
        )
    return device


def _edge(words: _Words, value: Any, place: str, expand: Any) -> Edge:
    row = words.mapping(value, place, {"ep1", "ep2", "scheme", "link", "description"})
    ends = []
    for key in ("ep1", "ep2"):
        known = {"device", "component", "instance"}
        ends.append(expand(words.mapping(row.get(key), f"{place}.{key}", known), f"{place}.{key}"))
    scheme = row.get("scheme")
    if scheme not in ("one2one", "many2many"):
        raise words.source.error(f"{place}.scheme: expected one2one or many2many, found {shown(scheme)}")
    if scheme == "one2one" and len(ends[0]) != len(ends[1]):
        raise words.source.error(f"{place}: one2one joins {len(ends[0])} endpoints with {len(ends[1])}")
    link = words.text(row.get("link"), f"{place}.link")
    return Edge(tuple(ends[0]), tuple(ends[1]), scheme == "many2many", link, place)


def _indices(words: _Words, text: Any, place: str, sizes: Mapping[str, int]) -> tuple[str, range]:
    """Name and indices of ``nic``, ``nic[1]`` or ``nic[0:4]``."""
    match = _PART.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise words.source.error(
            f"{place}: expected a name with a slice such as nic[0:4], found {shown(text)}"
        )
    name, first, colon, last, step = match.groups()
    if name not in sizes:
        raise words.source.error(f"{place}: there is no {shown(name)}")
    if "[" not in text:
        return name, range(sizes[name])
    if not colon and (last or not first):
        raise words.source.error(f"{place}: expected a slice such as [0:4], found {shown(text)}")
    start = int(first or 0)
    stop = int(last or sizes[name]) if colon else start + 1
    if not start < stop <= sizes[name] or not int(step or 1):
        raise words.source.error(f"{place}: {shown(text)} leaves the {sizes[name]} that there are")
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
    device = found.devices.get(found.instances[name][0])
    component = end.get("component")
    sizes = {title: count for title, count, _ in device.components} if device is not None else None
    if sizes is None:  # how many there are only the device could say
        match = _PART.fullmatch(component) if isinstance(component, str) else None
        if match is None or (match[2] is None and match[4] is None) or (match[3] and not match[4]):
            raise words.source.error(f"{place}: device {shown(found.instances[name][0])} is not in the file")
        sizes = {match[1]: max(int(match[2] or 0) + 1, int(match[4] or 0))}
    title, places = _indices(words, component, f"{place}.component", sizes)
    words.count_endpoints(len(indices) * len(places))
    return [f"{name}.{k}.{title}.{j}" for k in indices for j in places]


def _dotted(words: _Words, text: Any, place: str, *, inside: bool = False) -> Edge:
    """A connection in one line; `inside` a device it has no instances."""
    match = (_DOTTED_DEVICE if inside else _DOTTED).fullmatch(text) if isinstance(text, str) else None
    if match is None:
        example = "xpu.0.pcie.nic.0" if inside else "server.0.nic.0.eth.leaf.0.port.1"
        raise words.source.error(f"{place}: expected a connection such as {example}, found {shown(text)}")
    parts = match.groups()
    middle = 2 if inside else 4
    ones, others = ".".join(parts[:middle]), ".".join(parts[middle + 1 :])
    return Edge((_plain(ones),), (_plain(others),), True, parts[middle], place)


def _plain(end: str) -> str:
    """Indices without zeros in front."""
    return ".".join(str(int(part)) if part.isdecimal() else part for part in end.split("."))
