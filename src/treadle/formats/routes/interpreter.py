"""Compares route files with the plan: every route of the one is a route of the other, link by link.

What a card is told, ports and the nodes where hops set out, is held against the fabric's links; flow ids,
queue pairs, and whether links in layers wait in a circle, are judged from the file alone.
Whether the routes lead from source to target is the verifier's affair, which has judged the plan. Shares no
code with the writer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest

from treadle.formats.routes.reader import FileRoute, RouteFile, ports_of, read_csv, read_json, read_xml
from treadle.formats.verdict import Check, Planned, Terms, Verdict, listed
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes

MAX_VIOLATIONS = 1000
_LEAST_FLOW, _MOST_FLOW = 0xC000, 0xFFFF
"""Source ports of RoCE flows: the dynamic range of UDP."""


def interpret_json(files: Sequence[bytes], terms: Terms) -> Verdict:
    """The JSON against the plan."""
    return _judged(read_json(files[0], terms), terms)


def interpret_csv(files: Sequence[bytes], terms: Terms) -> Verdict:
    """The CSV against the plan."""
    return _judged(read_csv(files[0], terms), terms)


def interpret_xml(files: Sequence[bytes], terms: Terms) -> Verdict:
    """The XML against the plan."""
    return _judged(read_xml(files[0], terms), terms)


def _judged(file: RouteFile, terms: Terms) -> Verdict:
    n_ranks = 1 + max((max(route.source, route.target) for route in file.routes), default=-1)
    counts = (("route", len(file.routes)), ("hop", sum(len(route.links) for route in file.routes)))
    faults, check, detail = list(own_faults(file)), Check.PARSED, ""
    if terms.planned is not None:
        faults += _compared(file, terms.planned)
        check, detail = Check.COMPARED, ", route by route"
    return Verdict(check, listed(faults, MAX_VIOLATIONS), counts, n_ranks, "alltoall", detail)


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


def own_faults(file: RouteFile) -> Iterator[str]:
    """Everything that contradicts itself, in one line each.

    Notes
    -----
    Files of version 1 say neither flows nor the layers of hops after the first: only their shares are judged.
    """
    yield from _unshared(file)
    if file.queue_pairs is None:
        return
    yield from _unsteered(file)
    faults = list(_layers_astray(file))
    yield from faults
    if not faults:
        yield from _circle(file)


def _unshared(file: RouteFile) -> Iterator[str]:
    """Where the routes of a pair are not numbered in turn, or do not share its chunks out in turn."""
    following: dict[tuple[int, int], tuple[int, int]] = {}
    for place, route in enumerate(file.routes):
        pair = (route.source, route.target)
        number, first = following.get(pair, (0, 0))
        if (route.number, route.first_chunk) != (number, first):
            yield f"route {place}: expected route {number} of its pair, from chunk {first}"
        following[pair] = number + 1, first + route.chunks


def _unsteered(file: RouteFile) -> Iterator[str]:
    """Flow ids out of range or twice in a pair, and queue pairs that are not one for each flow of a host."""
    taken: dict[tuple[int, int, int | None], int] = {}
    for place, route in enumerate(file.routes):
        if route.flow is None or not _LEAST_FLOW <= route.flow <= _MOST_FLOW:
            yield f"route {place}: flow {route.flow}: expected {_LEAST_FLOW} to {_MOST_FLOW}"
        before = taken.setdefault((route.source, route.target, route.flow), place)
        if before != place:
            yield f"route {place}: flow {route.flow} is that of route {before} of the same pair"
    sent = Counter(route.source for route in file.routes)
    for rank, count in file.queue_pairs or ():
        if count != sent[rank]:
            yield f"rank {rank}: {count} queue pairs, it sends {sent[rank]} flows"
    for rank in sorted(set(sent) - {rank for rank, _ in file.queue_pairs or ()}):
        yield f"rank {rank}: queue pairs are not said, it sends {sent[rank]} flows"


def _layers_astray(file: RouteFile) -> Iterator[str]:
    """Layers that are not one a hop, do not begin with the route's, or are beyond those of the file."""
    for place, route in enumerate(file.routes):
        said = route.hop_layers
        if said and (len(said) != len(route.links) or said[0] != route.layer):
            yield f"route {place}: layers {list(said)}: expected one for each hop, the first {route.layer}"
        highest = max(said or (route.layer,))
        if file.n_layers is not None and highest >= file.n_layers:
            yield f"route {place}: layer {highest} is beyond the {file.n_layers} of the file"


def _circle(file: RouteFile) -> Iterator[str]:
    """Channels (layer, link) each of which is held while the next is waited for, if there are any."""
    earlier: dict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)
    later: dict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)
    for route in file.routes:
        layers = route.hop_layers or (route.layer,) * len(route.links)
        way = list(zip(layers, route.links, strict=True))
        for held, wanted in pairwise(way):
            earlier[wanted].add(held)
            later[held].add(wanted)
    waiting = {channel: len(before) for channel, before in earlier.items()}
    free = [channel for channel in later if channel not in waiting]
    while free:
        for wanted in later.get(free.pop(), ()):
            waiting[wanted] -= 1
            if not waiting[wanted]:
                del waiting[wanted]
                free.append(wanted)
    if not waiting:
        return
    seen: dict[tuple[int, int], int] = {}
    at = min(waiting)  # each that is left waits behind another that is left
    while at not in seen:
        seen[at] = len(seen)
        at = min(held for held in earlier[at] if held in waiting)
    circle = [channel for channel, number in seen.items() if number >= seen[at]][::-1]
    names = ", ".join(f"{link} in layer {layer}" for layer, link in circle[:8])
    yield f"{len(circle)} links wait for each other: {names}" + (", ..." if len(circle) > 8 else "")
