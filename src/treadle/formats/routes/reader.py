"""Reads route files: JSON, CSV and XML. Shares no code with the writer."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from lxml import etree

from treadle.errors import FormatError
from treadle.formats.verdict import Terms, decoded
from treadle.formats.xml_elements import Attributes, parse_xml
from treadle.input_files import parse_json
from treadle.schedules.plan_files.manifest_values import (
    read_integer,
    read_list,
    read_object,
    read_string,
    read_wholes,
)
from treadle.topologies.topology import Topology

MAX_TEXT = 2**31
_VERSIONS = (1, 2)
"""Version 1 has no flow ids and no queue pairs, and names only the first hop's layer."""
_NUMBERS = ("source", "target", "route", "layer", "first_chunk", "chunks")
_Six = tuple[int, int, int, int, int, int]
_ROUTE_KEYS = {*_NUMBERS, "ports", "links"}
_HEADING = [
    *("source", "target", "source_node", "target_node", "route", "layer"),
    *("first_chunk", "chunks", "hops", "ports", "links"),
]
_NEW_CELLS = ["layers", "flow", "queue_pairs"]
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_INTEGERS = (1 - 10**18, 10**18 - 1)
"""The same range for attributes of XML; the verifier checks each value."""


@dataclass(frozen=True)
class FileRoute:
    """One route as written, from rank to rank."""

    source: int
    target: int
    number: int
    """Number within its pair, from 0."""
    layer: int
    first_chunk: int
    chunks: int
    ports: tuple[int, ...]
    """Number of each link among the links out of its tail."""
    links: tuple[int, ...]
    nodes: tuple[str, ...] = ()
    """Tail of each hop, or the two ends of the route; empty if the file does not name them."""
    hop_layers: tuple[int, ...] = ()
    """Layer of each hop; empty if it stays the same, and in version 1."""
    flow: int | None = None
    """UDP source port of its chunks; None in version 1."""


@dataclass(frozen=True)
class RouteFile:
    """A file as written."""

    routes: tuple[FileRoute, ...]
    ranks: tuple[str, ...] | None = None
    """Names of the ranks' nodes; None in a CSV."""
    n_chunks: int | None = None
    """Chunks per unit of demand; None in a CSV."""
    n_layers: int | None = None
    queue_pairs: tuple[tuple[int, int], ...] | None = None
    """Distinct (rank, number) in the file; None in version 1."""


def read_route_json(text: str, source: str = "route file") -> RouteFile:
    """Read a JSON of routes; FormatError if it is malformed or hostile."""
    try:
        keys = {"treadle", "version", "fabric", "ranks", "n_chunks", "n_layers", "routes"}
        file = read_object(parse_json(text, source=source), "route file", keys, {"queue_pairs"})
        if file["treadle"] != "routes" or file["version"] not in _VERSIONS:
            raise FormatError("route file: expected treadle routes, version 1 or 2")
        is_new = file["version"] != 1
        if is_new is not ("queue_pairs" in file):
            raise FormatError("route file: expected queue_pairs in version 2, and only there")
        place = "route file: ranks"
        names = [read_string(name, place) for name in read_list(file["ranks"], place)]
        counts = read_wholes(file["queue_pairs"], "route file: queue_pairs") if is_new else ()
        if is_new and len(counts) != len(names):
            raise FormatError(f"route file: {len(counts)} queue_pairs for {len(names)} ranks")
        routes = [
            _json_route(item, f"route file: route {number}", is_new)
            for number, item in enumerate(read_list(file["routes"], "route file: routes"))
        ]
        n_chunks, n_layers = (read_integer(file[key], key) for key in ("n_chunks", "n_layers"))
        queue_pairs = tuple(enumerate(counts)) if is_new else None
        return RouteFile(tuple(routes), tuple(names), n_chunks, n_layers, queue_pairs)
    except FormatError as error:
        if error.line is not None or not source or str(error).startswith(f"{source}: "):
            raise  # The message names the file.
        raise FormatError(str(error), source=source) from None


def _json_route(item: Any, place: str, is_new: bool) -> FileRoute:
    keys = _ROUTE_KEYS | {"flow"} if is_new else _ROUTE_KEYS
    route = read_object(item, place, keys, {"layers"} if is_new else ())
    return FileRoute(
        *cast("_Six", tuple(read_integer(route[key], place) for key in _NUMBERS)),
        ports=read_wholes(route["ports"], place),
        links=read_wholes(route["links"], place),
        hop_layers=read_wholes(route.get("layers", []), place),
        flow=read_integer(route["flow"], place) if is_new else None,
    )


def read_route_csv(text: str, source: str = "route file") -> RouteFile:
    """Read a CSV of routes; FormatError if it is malformed or hostile."""
    routes = []
    queue_pairs: dict[tuple[int, int], None] = {}
    heading = [*_HEADING, *_NEW_CELLS]
    try:
        rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        for line, row in enumerate(rows):
            if line == 0 and row not in (heading, _HEADING):
                raise FormatError(f"expected the heading {','.join(heading)}", source=source)
            if line == 0:
                heading = row
                continue
            if len(row) != len(heading):
                raise FormatError(f"row {line}: {len(row)} cells, expected {len(heading)}", source=source)
            cells = dict(zip(heading, row, strict=True))
            route = _csv_route(cells, line, source)
            routes.append(route)
            if route.flow is not None:
                count = _number(cells["queue_pairs"], f"row {line}: queue_pairs", source)
                queue_pairs[route.source, count] = None
    except csv.Error as error:
        raise FormatError(f"no CSV ({error})", source=source) from None
    return RouteFile(tuple(routes), queue_pairs=None if heading == _HEADING else tuple(queue_pairs))


def _csv_route(cells: dict[str, str], line: int, source: str) -> FileRoute:
    ports, links, hop_layers = (
        tuple(_number(word, f"row {line}: {key}", source) for word in cells.get(key, "").split())
        for key in ("ports", "links", "layers")
    )
    *numbers, hops = (_number(cells[key], f"row {line}: {key}", source) for key in (*_NUMBERS, "hops"))
    if hops != len(links):
        raise FormatError(f"row {line}: {len(links)} links, not {cells['hops']}", source=source)
    return FileRoute(
        *cast("_Six", tuple(numbers)),
        ports=ports,
        links=links,
        nodes=(cells["source_node"], cells["target_node"]),
        hop_layers=hop_layers,
        flow=_number(cells["flow"], f"row {line}: flow", source) if "flow" in cells else None,
    )


def read_route_xml(text: str, source: str = "route file") -> RouteFile:
    """Read an XML of routes; FormatError if it is malformed or hostile."""
    read, top = Attributes(source), parse_xml(text, source, MAX_TEXT)
    if top.tag != "routes" or top.get("version") not in ("1", "2"):
        raise FormatError("expected <routes>, version 1 or 2", source=source)
    is_new = top.get("version") != "1"
    names: list[str] = []
    counts: list[int] = []
    routes: list[FileRoute] = []
    for element in top:
        if element.tag == "rank":
            read.number(element, "number", len(names), len(names))
            names.append(element.get("node", ""))
            counts += [read.number(element, "queue_pairs", *_INTEGERS)] if is_new else []
        elif element.tag == "pair":
            routes += _pair(read, element, is_new)
        else:
            raise read.fail(element, "found, expected <rank> or <pair>")
    read.number(top, "ranks", len(names), len(names))
    n_chunks, n_layers = (read.number(top, key, *_INTEGERS) for key in ("chunks", "layers"))
    queue_pairs = tuple(enumerate(counts)) if is_new else None
    return RouteFile(tuple(routes), tuple(names), n_chunks, n_layers, queue_pairs)


def _pair(read: Attributes, pair: etree._Element, is_new: bool) -> Iterator[FileRoute]:
    ends = [read.number(pair, key, *_INTEGERS) for key in ("source", "target")]
    for number, route in enumerate(pair):
        if route.tag != "route" or any(hop.tag != "hop" for hop in route):
            raise read.fail(route, "found, expected <route> with a <hop> for each link")
        shares = [read.number(route, key, *_INTEGERS) for key in ("layer", "first_chunk", "chunks")]
        has_layers = is_new and any(hop.get("layer") is not None for hop in route)
        ports, links, hop_layers = (
            tuple(read.number(hop, key, *_INTEGERS) for hop in route if key != "layer" or has_layers)
            for key in ("port", "link", "layer")
        )
        yield FileRoute(
            *cast("_Six", (*ends, number, *shares)),
            ports=ports,
            links=links,
            nodes=tuple(hop.get("node", "") for hop in route),
            hop_layers=hop_layers,
            flow=read.number(route, "flow", *_INTEGERS) if is_new else None,
        )


def _read(parse: Callable[[str, str], RouteFile], data: bytes, terms: Terms) -> RouteFile:
    return parse(*decoded(data, terms, "route file"))


read_json, read_csv, read_xml = (
    partial(_read, parse) for parse in (read_route_json, read_route_csv, read_route_xml)
)


def _number(word: str, place: str, source: str) -> int:
    if not _NUMBER.fullmatch(word):
        raise FormatError(f"{place}: {word[:40]!r}: expected an integer", source=source)
    return int(word)


def ports_of(topology: Topology) -> list[int]:
    """Return each link's number among those out of its tail, in the fabric's order, from 0.

    Examples
    --------
    >>> from treadle.topologies import ring
    >>> ports_of(ring(3))
    [0, 0, 1, 0, 1, 1]
    """
    used: dict[int, int] = defaultdict(int)
    ports = []
    for tail in topology.tails.tolist():
        ports.append(used[tail])
        used[tail] += 1
    return ports
