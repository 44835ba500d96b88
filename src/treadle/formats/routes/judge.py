"""Compares route files with the plan: every route of the one is a route of the other, link by link.

What a card is told, ports and the nodes where hops set out, is held against the fabric's links; flow ids,
queue pairs, and whether links in layers wait in a circle, are judged from the file alone (`judge_alone`).
Whether the routes lead from source to target is the verifier's affair, which has judged the plan. Shares no
code with the writer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from treadle.formats.judgement import Check, Judgement, Planned, Terms, listed
from treadle.formats.routes.judge_alone import own_faults
from treadle.formats.routes.reader import FileRoute, RouteFile, ports_of, read_csv, read_json, read_xml
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes

MAX_VIOLATIONS = 1000


def judge_json(files: Sequence[bytes], terms: Terms) -> Judgement:
    """The JSON against the plan."""
    return _judged(read_json(files[0], terms), terms)


def judge_csv(files: Sequence[bytes], terms: Terms) -> Judgement:
    """The CSV against the plan."""
    return _judged(read_csv(files[0], terms), terms)


def judge_xml(files: Sequence[bytes], terms: Terms) -> Judgement:
    """The XML against the plan."""
    return _judged(read_xml(files[0], terms), terms)


def _judged(file: RouteFile, terms: Terms) -> Judgement:
    n_ranks = 1 + max((max(route.source, route.target) for route in file.routes), default=-1)
    counts = (("route", len(file.routes)), ("hop", sum(len(route.links) for route in file.routes)))
    faults, check, detail = list(own_faults(file)), Check.PARSED, ""
    if terms.planned is not None:
        faults += _compared(file, terms.planned)
        check, detail = Check.COMPARED, ", route by route"
    return Judgement(check, listed(faults, MAX_VIOLATIONS), counts, n_ranks, "alltoall", detail)


def _compared(file: RouteFile, planned: Planned) -> Iterator[str]:
    """Where file and plan differ."""
    schedule, topology = planned.schedule, planned.topology
    if isinstance(schedule, TimedRoutes):
        schedule = schedule.routes
    if not isinstance(schedule, RouteSchedule):
        yield "the plan has no routes"
        return
    names = tuple(topology.node_names[node] for node in planned.collective.ranks)
    if file.ranks not in (None, names):
        yield "the ranks are not those of the plan"
    for what, said, is_so in (
        ("chunks", file.n_chunks, schedule.n_chunks),
        ("layers", file.n_layers, schedule.n_layers),
    ):
        if said not in (None, is_so):
            yield f"{said} {what}, the plan has {is_so}"
    ports, by_hop = ports_of(topology), schedule.layers_by_hop
    tails = topology.tails.tolist()
    columns = (schedule.source, schedule.target, schedule.layer, schedule.units)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for place, (route, row) in enumerate(zip_longest(file.routes, rows)):
        if route is None or row is None:
            yield f"{len(file.routes)} routes, the plan has {schedule.n_paths}"
            return
        links = tuple(schedule.path(place).tolist())
        if (route.source, route.target, route.layer, route.chunks, route.links) != (*row, links):
            yield f"route {place}: differs from the plan's, {row[0]} to {row[1]} in layer {row[2]}"
        elif wrong := _other_layers(route, by_hop[schedule.path_offset[place] :][: len(links)].tolist()):
            yield f"route {place}: {wrong}"
        elif list(route.ports) != [ports[link] for link in links]:
            yield f"route {place}: ports {list(route.ports)} are not those of its links"
        elif route.nodes not in (
            (),
            (names[route.source], names[route.target]),
            tuple(topology.node_names[tails[link]] for link in links),
        ):
            yield f"route {place}: names nodes that are not on its way"


def _other_layers(route: FileRoute, planned: list[int]) -> str:
    """In what the layers of the hops differ from the plan's; nothing if they do not."""
    said = list(route.hop_layers) or [route.layer] * len(planned)
    if said == planned:
        return ""
    if route.flow is None:
        return "its layer changes on the way, which a file of version 1 does not say; write it anew"
    return f"layers {said}, the plan has {planned}"
