"""Reads route files: JSON, CSV and XML.

Shares no code with the writer.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from lxml import etree

from treadle.errors import FormatError
from treadle.formats.verdict import Terms, decoded
from treadle.formats.xml_elements import line_of, parse_plain_xml
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
"""Version 1 has no flow ids or queue pairs, and names the first hop's layer only."""
_NUMBERS = ("source", "target", "route", "layer", "first_chunk", "chunks")
_Six = tuple[int, int, int, int, int, int]
_ROUTE_KEYS = {*_NUMBERS, "ports", "links"}
_HEADING = [
    *("source", "target", "source_node", "target_node", "route", "layer"),
    *("first_chunk", "chunks", "hops", "ports", "links"),
]
_NEW_CELLS = ["layers", "flow", "queue_pairs"]
_NUMBER = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True)
class FileRoute:
    """One route as written.

    Parameters
    ----------
    source, target : int
        Ranks.
    number : int
        Within its pair, from 0.
    layer, first_chunk, chunks : int
    ports, links : tuple of int
        Of every link of the way, its number among those out of its tail, and among all.
    nodes : tuple of str
        Where each hop sets out; or the two ends; empty where the file does not say.
    hop_layers : tuple of int
        Of every link of the way; empty where the layer stays the same, and in version 1.
    flow : int, optional
        UDP source port of its chunks; version 1 does not say.
    """

    source: int
    target: int
    number: int
    layer: int
    first_chunk: int
    chunks: int
    ports: tuple[int, ...]
    links: tuple[int, ...]
    nodes: tuple[str, ...] = ()
    hop_layers: tuple[int, ...] = ()
    flow: int | None = None


@dataclass(frozen=True)
class RouteFile:
    """A file as written.

    Parameters
    ----------
    routes : tuple of FileRoute
    ranks : tuple of str, optional
        Names of their nodes.
    n_chunks, n_layers : int, optional
        Chunks per unit of demand, and layers; a CSV does not say.
    queue_pairs : tuple of (int, int), optional
        Rank and number, as often as different ones are said; version 1 does not say.
    """

    routes: tuple[FileRoute, ...]
    ranks: tuple[str, ...] | None = None
    n_chunks: int | None = None
    n_layers: int | None = None
    queue_pairs: tuple[tuple[int, int], ...] | None = None


def read_json(data: bytes, terms: Terms) -> RouteFile:
    """Read the JSON."""
    return read_route_json(*decoded(data, terms, "route file"))


def read_csv(data: bytes, terms: Terms) -> RouteFile:
    """Read the CSV."""
    return read_route_csv(*decoded(data, terms, "route file"))


def read_xml(data: bytes, terms: Terms) -> RouteFile:
    """Read the XML."""
    return read_route_xml(*decoded(data, terms, "route file"))


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
            raise  # it names the file
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
    top = parse_plain_xml(text, source, MAX_TEXT)
    if top.tag != "routes" or top.get("version") not in ("1", "2"):
        raise FormatError("expected <routes>, version 1 or 2", source=source)
    is_new = top.get("version") != "1"
    names: list[str] = []
    counts: list[int] = []
    routes: list[FileRoute] = []
    for element in top:
        if element.tag == "rank":
            if _attribute(element, "number", source) != len(names):
                raise _wrong(element, f"expected rank {len(names)}", source)
            names.append(element.get("node", ""))
            counts += [_attribute(element, "queue_pairs", source)] if is_new else []
        elif element.tag == "pair":
            routes += _pair(element, source, is_new)
        else:
            raise _wrong(element, "expected <rank> or <pair>", source)
    if _attribute(top, "ranks", source) != len(names):
        raise _wrong(top, f"holds {len(names)} ranks", source)
    n_chunks, n_layers = (_attribute(top, key, source) for key in ("chunks", "layers"))
    queue_pairs = tuple(enumerate(counts)) if is_new else None
    return RouteFile(tuple(routes), tuple(names), n_chunks, n_layers, queue_pairs)


def _pair(pair: etree._Element, source: str, is_new: bool) -> Iterator[FileRoute]:
    ends = [_attribute(pair, key, source) for key in ("source", "target")]
    for number, route in enumerate(pair):
        if route.tag != "route" or any(hop.tag != "hop" for hop in route):
            raise _wrong(route, "expected <route> with a <hop> for each link", source)
        shares = [_attribute(route, key, source) for key in ("layer", "first_chunk", "chunks")]
        says_layers = is_new and any(hop.get("layer") is not None for hop in route)
        yield FileRoute(
            *cast("_Six", (*ends, number, *shares)),
            ports=tuple(_attribute(hop, "port", source) for hop in route),
            links=tuple(_attribute(hop, "link", source) for hop in route),
            nodes=tuple(hop.get("node", "") for hop in route),
            hop_layers=tuple(_attribute(hop, "layer", source) for hop in route if says_layers),
            flow=_attribute(route, "flow", source) if is_new else None,
        )


def _wrong(element: etree._Element, what: str, source: str) -> FormatError:
    return FormatError(f"<{str(element.tag)[:40]}>: {what}", source=source, line=line_of(element))


def _attribute(element: etree._Element, key: str, source: str) -> int:
    return _number(element.get(key, ""), f"line {element.sourceline}: {key}", source)


def _number(word: str, place: str, source: str) -> int:
    if not _NUMBER.fullmatch(word):
        raise FormatError(f"{place}: {word[:40]!r}: expected an integer", source=source)
    return int(word)


def ports_of(topology: Topology) -> list[int]:
    """Each link's number among those out of its tail, in the fabric's order, from 0.

    Examples
    --------
    >>> from treadle.topologies import ring
    >>> ports_of(ring(3))
    [0, 1, 0, 1, 0, 1]
    """
    used: dict[int, int] = defaultdict(int)
    ports = []
    for tail in topology.tails.tolist():
        ports.append(used[tail])
        used[tail] += 1
    return ports
