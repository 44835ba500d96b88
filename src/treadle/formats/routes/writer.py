"""Route schedules as text: JSON, CSV and XML for tools that program adapters."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from lxml import etree

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.formats.request import TextRequest, Written
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import routes_in
from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology

_VERSION = 1
_COLUMNS = (
    "source",
    "target",
    "source_node",
    "target_node",
    "route",
    "layer",
    "first_chunk",
    "chunks",
    "hops",
    "ports",
    "links",
)


@dataclass(frozen=True)
class _Line:
    """One route, ready to be written."""

    source: int
    target: int
    route: int
    layer: int
    first_chunk: int
    chunks: int
    ports: list[int]
    links: list[int]


def emit_route_json(topology: Topology, collective: Collective, schedule: RouteSchedule) -> str:
    """Write routes as JSON, one route a line.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    schedule : RouteSchedule
        Checked by the caller.

    Raises
    ------
    ScheduleError
        If the routes do not belong to the fabric.

    Notes
    -----
    Keys of a route: source and target (ranks), route (its number within the pair), layer, first_chunk and
    chunks (those of the pair's chunks that are steered to it), ports (at each node of the way, the number of
    the link among the links out of that node, in the fabric's order, from 0) and links (the fabric's own
    numbers of the same links). Self-loops have port numbers, too.
    """
    head = {
        "treadle": "routes",
        "version": _VERSION,
        "fabric": topology.name,
        "ranks": [topology.node_names[node] for node in collective.ranks],
        "n_chunks": schedule.n_chunks,
        "n_layers": schedule.n_layers,
    }
    lines = [
        json.dumps(
            {
                "source": line.source,
                "target": line.target,
                "route": line.route,
                "layer": line.layer,
                "first_chunk": line.first_chunk,
                "chunks": line.chunks,
                "ports": line.ports,
                "links": line.links,
            }
        )
        for line in _lines(topology, collective, schedule)
    ]
    text = json.dumps(head, ensure_ascii=False)
    return text[:-1] + ', "routes": [\n' + ",\n".join(lines) + "\n]}\n"


def emit_route_csv(topology: Topology, collective: Collective, schedule: RouteSchedule) -> str:
    """Write routes as CSV with a heading; ports and links are numbers with spaces between (see the JSON).

    Raises
    ------
    ScheduleError
        If the routes do not belong to the fabric.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_COLUMNS)
    names = [topology.node_names[node] for node in collective.ranks]
    for line in _lines(topology, collective, schedule):
        writer.writerow(
            (
                line.source,
                line.target,
                names[line.source],
                names[line.target],
                line.route,
                line.layer,
                line.first_chunk,
                line.chunks,
                len(line.links),
                " ".join(map(str, line.ports)),
                " ".join(map(str, line.links)),
            )
        )
    return stream.getvalue()


def emit_route_xml(topology: Topology, collective: Collective, schedule: RouteSchedule) -> str:
    """Write routes as XML: a ``pair`` of ranks has ``route`` elements, and these a ``hop`` per link.

    Raises
    ------
    ScheduleError
        If the routes do not belong to the fabric.
    """
    root = etree.Element(
        "routes",
        version=str(_VERSION),
        fabric=topology.name,
        ranks=str(schedule.n_ranks),
        chunks=str(schedule.n_chunks),
        layers=str(schedule.n_layers),
    )
    for number, node in enumerate(collective.ranks):
        etree.SubElement(root, "rank", number=str(number), node=topology.node_names[node])
    pair = root
    for line in _lines(topology, collective, schedule):
        if line.route == 0:
            pair = etree.SubElement(root, "pair", source=str(line.source), target=str(line.target))
        route = etree.SubElement(
            pair,
            "route",
            layer=str(line.layer),
            first_chunk=str(line.first_chunk),
            chunks=str(line.chunks),
        )
        for port, link in zip(line.ports, line.links, strict=True):
            node = int(topology.tails[link])
            etree.SubElement(route, "hop", node=topology.node_names[node], port=str(port), link=str(link))
    text: str = etree.tostring(root, pretty_print=True, encoding="unicode")
    return text


def _lines(topology: Topology, collective: Collective, schedule: RouteSchedule) -> Iterator[_Line]:
    """All routes in order; ScheduleError if they are for other ranks, or name links that do not exist."""
    if schedule.n_ranks != collective.n_ranks:
        raise ScheduleError(
            f"route file: the routes are for {schedule.n_ranks} ranks, expected {collective.n_ranks}"
        )
    if schedule.path_links.size and int(schedule.path_links.max()) >= topology.n_links:
        raise ScheduleError(f"route file: a route takes a link beyond the {topology.n_links} of the fabric")
    ports = _ports(topology)
    before, route, first = -1, 0, 0
    pairs, units, layers = schedule.pair.tolist(), schedule.units.tolist(), schedule.layer.tolist()
    for path, pair in enumerate(pairs):
        route, first = (route + 1, first + units[path - 1]) if pair == before else (0, 0)
        before = pair
        links = schedule.path(path)
        yield _Line(
            source=pair // schedule.n_ranks,
            target=pair % schedule.n_ranks,
            route=route,
            layer=layers[path],
            first_chunk=first,
            chunks=units[path],
            ports=ports[links].tolist(),
            links=links.tolist(),
        )


def _ports(topology: Topology) -> Int64Array:
    """Number of each link among those out of its tail."""
    order = np.argsort(topology.tails, kind="stable")
    tails = topology.tails[order]
    ports: Int64Array = np.empty(topology.n_links, dtype=np.int64)
    ports[order] = np.arange(topology.n_links) - np.searchsorted(tails, tails)
    return ports


def write_json(request: TextRequest) -> Written:
    """A plan's routes as JSON."""
    return _written(request, emit_route_json)


def write_csv(request: TextRequest) -> Written:
    """A plan's routes as CSV."""
    return _written(request, emit_route_csv)


def write_xml(request: TextRequest) -> Written:
    """A plan's routes as XML."""
    return _written(request, emit_route_xml)


def _written(request: TextRequest, emit: Callable[[Topology, Collective, RouteSchedule], str]) -> Written:
    plan = request.plan
    text = emit(plan.topology, plan.collective, routes_in(request.entry.schedule, plan.algorithm))
    return Written((("", text.encode()),))
