"""Route schedules as text: JSON, CSV and XML for tools that program adapters."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from lxml import etree

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.formats.request import FileRequest, Written
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import routes_in
from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.host_cards import hosts_passed

_VERSION = 2
_FLOWS = range(0xC000, 0x10000)
_COLUMNS = [
    *("source", "target", "source_node", "target_node", "route", "layer", "first_chunk", "chunks"),
    *("hops", "ports", "links", "layers", "flow", "queue_pairs"),
]
_Line = dict[str, Any]
"""One route with the keys of the JSON; no layers where they are the same on the whole way."""


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
    the link among the links out of that node, in the fabric's order, from 0), links (the fabric's own
    numbers of the same links), layers (of every hop; left out where the layer is the same on the whole way)
    and flow (the UDP source port that steers these chunks: 0xC000 to 0xFFFF, as RoCE has it, no two alike in
    a pair). ``queue_pairs`` of the file: of every rank, the number of flows that it sends. Self-loops have
    port numbers, too.
    """
    head = {
        "treadle": "routes",
        "version": _VERSION,
        "fabric": topology.name,
        "ranks": [topology.node_names[node] for node in collective.ranks],
        "n_chunks": schedule.n_chunks,
        "n_layers": schedule.n_layers,
        "queue_pairs": _queue_pairs(schedule),
    }
    lines = [json.dumps(line) for line in _lines(topology, collective, schedule)]
    text = json.dumps(head, ensure_ascii=False)
    return text[:-1] + ', "routes": [\n' + ",\n".join(lines) + "\n]}\n"


def emit_route_csv(topology: Topology, collective: Collective, schedule: RouteSchedule) -> str:
    """Write routes as CSV with a heading; ports, links, layers are numbers with spaces between.

    Columns are the keys of the JSON; each row names the queue pairs of its source.

    Raises
    ------
    ScheduleError
        If the routes do not belong to the fabric.
    """
    stream = io.StringIO()
    writer = csv.DictWriter(stream, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    names = [topology.node_names[node] for node in collective.ranks]
    queue_pairs = _queue_pairs(schedule)
    for line in _lines(topology, collective, schedule):
        source, hops = line["source"], len(line["links"])
        ends = {"source_node": names[source], "target_node": names[line["target"]]}
        lists = {key: " ".join(map(str, line.get(key, ()))) for key in ("ports", "links", "layers")}
        writer.writerow({**line, **ends, **lists, "hops": hops, "queue_pairs": queue_pairs[source]})
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
    for number, (node, count) in enumerate(zip(collective.ranks, _queue_pairs(schedule), strict=True)):
        name = topology.node_names[node]
        etree.SubElement(root, "rank", number=str(number), node=name, queue_pairs=str(count))
    pair = root
    for line in _lines(topology, collective, schedule):
        if line["route"] == 0:
            pair = etree.SubElement(root, "pair", source=str(line["source"]), target=str(line["target"]))
        keys = ("layer", "first_chunk", "chunks", "flow")
        route = etree.SubElement(pair, "route", {key: str(line[key]) for key in keys})
        for number, (port, link) in enumerate(zip(line["ports"], line["links"], strict=True)):
            tail = topology.node_names[int(topology.tails[link])]
            hop = etree.SubElement(route, "hop", node=tail, port=str(port), link=str(link))
            if "layers" in line:
                hop.set("layer", str(line["layers"][number]))
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
    # number of each link among those out of its tail
    order = np.argsort(topology.tails, kind="stable")
    tails = topology.tails[order]
    ports: Int64Array = np.empty(topology.n_links, dtype=np.int64)
    ports[order] = np.arange(topology.n_links) - np.searchsorted(tails, tails)
    by_hop, offset = schedule.layers_by_hop, schedule.path_offset
    before, route, first = -1, 0, 0
    pairs, units, layers = schedule.pair.tolist(), schedule.units.tolist(), schedule.layer.tolist()
    for path, pair in enumerate(pairs):
        route, first = (route + 1, first + units[path - 1]) if pair == before else (0, 0)
        before = pair
        if route >= len(_FLOWS):
            raise ScheduleError(
                f"route file: a pair has more than {len(_FLOWS)} routes, one for each flow id"
            )
        on_the_way = by_hop[offset[path] : offset[path + 1]].tolist()
        links = schedule.path(path)
        yield {
            "source": pair // schedule.n_ranks,
            "target": pair % schedule.n_ranks,
            "route": route,
            "layer": layers[path],
            "first_chunk": first,
            "chunks": units[path],
            "ports": ports[links].tolist(),
            "links": links.tolist(),
            **({"layers": on_the_way} if len(set(on_the_way)) > 1 else {}),
            "flow": _FLOWS[route],
        }


def _queue_pairs(schedule: RouteSchedule) -> list[int]:
    """Flows that each rank sends."""
    return np.bincount(schedule.source, minlength=schedule.n_ranks).tolist()  # type: ignore[no-any-return]


def write_json(request: FileRequest) -> Written:
    """A plan's routes as JSON."""
    return _written(request, emit_route_json)


def write_csv(request: FileRequest) -> Written:
    """A plan's routes as CSV."""
    return _written(request, emit_route_csv)


def write_xml(request: FileRequest) -> Written:
    """A plan's routes as XML."""
    return _written(request, emit_route_xml)


def _written(request: FileRequest, emit: Callable[[Topology, Collective, RouteSchedule], str]) -> Written:
    plan = request.plan
    routes = routes_in(request.entry.schedule, plan.algorithm)
    for host in hosts_passed(plan.topology, routes.path_offset, routes.path_links)[:1].tolist():
        raise ScheduleError(
            f"routes: some pass the memory of {plan.topology.node_names[host]!r}, where no card forwards; "
            "write programs for the ranks, such as msccl-xml or cpu-xml, or solve with --algorithm pipelined"
        )
    text = emit(plan.topology, plan.collective, routes)
    return Written((("", text.encode()),))
