"""Reads route files: JSON, CSV and XML.

Shares no code with the writer.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lxml import etree

from treadle.errors import FormatError
from treadle.schedules.plan_files.manifest_values import (
    read_list,
    read_object,
    read_string,
    read_whole,
    read_wholes,
)
from treadle.topologies.files import parse_json
from treadle.topologies.topology import Topology

MAX_TEXT = 2**31
_VERSION = 1
_ROUTE_KEYS = {"source", "target", "route", "layer", "first_chunk", "chunks", "ports", "links"}
_HEADING = [
    *("source", "target", "source_node", "target_node", "route", "layer"),
    *("first_chunk", "chunks", "hops", "ports", "links"),
]
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
    """

    routes: tuple[FileRoute, ...]
    ranks: tuple[str, ...] | None = None
    n_chunks: int | None = None
    n_layers: int | None = None


def _route(
    numbers: Sequence[int], ports: tuple[int, ...], links: tuple[int, ...], nodes: tuple[str, ...] = ()
) -> FileRoute:
    """From the numbers in the order of a CSV's columns."""
    source, target, number, layer, first_chunk, chunks = numbers
    return FileRoute(source, target, number, layer, first_chunk, chunks, ports, links, nodes)


def read_route_json(text: str, *, source: str = "route file") -> RouteFile:
    """Read a JSON of routes; FormatError if it is malformed or hostile."""
    try:
        keys = {"treadle", "version", "fabric", "ranks", "n_chunks", "n_layers", "routes"}
        file = read_object(parse_json(text, source=source), "route file", keys)
        if file["treadle"] != "routes" or file["version"] != _VERSION:
            raise FormatError(f"route file: expected treadle routes, version {_VERSION}")
        names = [
            read_string(name, "route file: ranks") for name in read_list(file["ranks"], "route file: ranks")
        ]
        routes = []
        for number, item in enumerate(read_list(file["routes"], "route file: routes")):
            place = f"route file: route {number}"
            route = read_object(item, place, _ROUTE_KEYS)
            numbers = [
                read_whole(route[key], place)
                for key in ("source", "target", "route", "layer", "first_chunk", "chunks")
            ]
            ports, links = (read_wholes(route[key], place) for key in ("ports", "links"))
            routes.append(_route(numbers, ports, links))
        n_chunks, n_layers = (read_whole(file[key], key) for key in ("n_chunks", "n_layers"))
        return RouteFile(tuple(routes), tuple(names), n_chunks, n_layers)
    except FormatError as error:
        raise _located(error, source) from None


def read_route_csv(text: str, *, source: str = "route file") -> RouteFile:
    """Read a CSV of routes; FormatError if it is malformed or hostile."""
    routes = []
    try:
        rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        for line, row in enumerate(rows):
            if line == 0 and row != _HEADING:
                raise FormatError(f"expected the heading {','.join(_HEADING)}", source=source)
            if line == 0:
                continue
            if len(row) != len(_HEADING):
                raise FormatError(f"row {line}: {len(row)} cells, expected {len(_HEADING)}", source=source)
            cells = dict(zip(_HEADING, row, strict=True))
            ports, links = (
                tuple(_number(word, f"row {line}: {key}", source) for word in cells[key].split())
                for key in ("ports", "links")
            )
            numbers = [
                _number(cells[key], f"row {line}: {key}", source)
                for key in ("source", "target", "route", "layer", "first_chunk", "chunks", "hops")
            ]
            if numbers.pop() != len(links):
                raise FormatError(f"row {line}: {len(links)} links, not {cells['hops']}", source=source)
            routes.append(_route(numbers, ports, links, (cells["source_node"], cells["target_node"])))
    except csv.Error as error:
        raise FormatError(f"no CSV ({error})", source=source) from None
    return RouteFile(tuple(routes))


def read_route_xml(text: str, *, source: str = "route file") -> RouteFile:
    """Read an XML of routes; FormatError if it is malformed or hostile."""
    top = _tree(text, source)
    if top.tag != "routes" or top.get("version") != str(_VERSION):
        raise FormatError(f"expected <routes>, version {_VERSION}", source=source)
    names: list[str] = []
    routes: list[FileRoute] = []
    for element in top:
        if element.tag == "rank":
            if _attribute(element, "number", source) != len(names):
                raise _wrong(element, f"expected rank {len(names)}", source)
            names.append(element.get("node", ""))
        elif element.tag == "pair":
            routes += _pair(element, source)
        else:
            raise _wrong(element, "expected <rank> or <pair>", source)
    if _attribute(top, "ranks", source) != len(names):
        raise _wrong(top, f"holds {len(names)} ranks", source)
    n_chunks, n_layers = (_attribute(top, key, source) for key in ("chunks", "layers"))
    return RouteFile(tuple(routes), tuple(names), n_chunks, n_layers)


def _pair(pair: etree._Element, source: str) -> Iterator[FileRoute]:
    ends = [_attribute(pair, key, source) for key in ("source", "target")]
    for number, route in enumerate(pair):
        if route.tag != "route" or any(hop.tag != "hop" for hop in route):
            raise _wrong(route, "expected <route> with a <hop> for each link", source)
        shares = [_attribute(route, key, source) for key in ("layer", "first_chunk", "chunks")]
        ports, links = (tuple(_attribute(hop, key, source) for hop in route) for key in ("port", "link"))
        yield _route([*ends, number, *shares], ports, links, tuple(hop.get("node", "") for hop in route))


def _tree(text: str, source: str) -> etree._Element:
    """Parsed without entities; FormatError."""
    if len(text) > MAX_TEXT or re.search(r"<!(?!--)", text):
        raise FormatError(f"expected at most {MAX_TEXT} characters and no DTD or entity", source=source)
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True
    )
    try:
        return etree.fromstring(text.encode(), parser)
    except (etree.XMLSyntaxError, UnicodeEncodeError) as error:
        raise FormatError(f"not well-formed ({error})".replace("\n", " ")[:300], source=source) from None


def _wrong(element: etree._Element, what: str, source: str) -> FormatError:
    line: Any = element.sourceline
    return FormatError(f"<{str(element.tag)[:40]}>: {what}", source=source, line=line)


def _attribute(element: etree._Element, key: str, source: str) -> int:
    return _number(element.get(key, ""), f"line {element.sourceline}: {key}", source)


def _number(word: str, place: str, source: str) -> int:
    if not _NUMBER.fullmatch(word):
        raise FormatError(f"{place}: {word[:40]!r}: expected an integer", source=source)
    return int(word)


def _located(error: FormatError, source: str) -> FormatError:
    """The error with the file's name, once."""
    if error.line is not None or not source or str(error).startswith(f"{source}: "):
        return error
    return FormatError(str(error), source=source)


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


def own_faults(routes: Sequence[FileRoute]) -> Iterator[str]:
    """Where the routes of a pair are not numbered in turn, or do not share its chunks out in turn."""
    following: dict[tuple[int, int], tuple[int, int]] = {}
    for place, route in enumerate(routes):
        pair = (route.source, route.target)
        number, first = following.get(pair, (0, 0))
        if (route.number, route.first_chunk) != (number, first):
            yield f"route {place}: expected route {number} of its pair, from chunk {first}"
        following[pair] = number + 1, first + route.chunks
