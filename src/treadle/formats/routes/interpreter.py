"""Compares route files with the plan: both must have the same routes, link by link.

The ports and the first nodes of hops are compared with the fabric's links. Flow ids, queue pairs and deadlock
freedom (no cycle of links in layers) are checked from the file alone. That the routes lead from source to
target was verified with the plan. Shares no code with the writer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise, zip_longest

from treadle.formats.routes.reader import FileRoute, RouteFile, ports_of, read_csv, read_json, read_xml
from treadle.formats.verdict import Check, Planned, Terms, Verdict, listed
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes

MAX_VIOLATIONS = 1000
_LEAST_FLOW, _MOST_FLOW = 0xC000, 0xFFFF
"""Source ports of RoCE flows: the dynamic range of UDP."""


def _interpret(read: Callable[[bytes, Terms], RouteFile], files: Sequence[bytes], terms: Terms) -> Verdict:
    """Check a file by itself, and compare it with the plan if there is one."""
    file = read(files[0], terms)
    n_ranks = 1 + max((max(route.source, route.target) for route in file.routes), default=-1)
    counts = (("route", len(file.routes)), ("hop", sum(len(route.links) for route in file.routes)))
    faults, check, detail = list(own_faults(file)), Check.PARSED, ""
    if terms.planned is not None:
        faults += _compared(file, terms.planned)
        check, detail = Check.COMPARED, ", route by route"
    return Verdict(check, listed(faults, MAX_VIOLATIONS), counts, n_ranks, "alltoall", detail)


interpret_json = partial(_interpret, read_json)
interpret_csv = partial(_interpret, read_csv)
interpret_xml = partial(_interpret, read_xml)


def _compared(file: RouteFile, planned: Planned) -> Iterator[str]:
    """Yield the differences between file and plan."""
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
        elif wrong := _wrong_layers(route, by_hop[schedule.path_offset[place] :][: len(links)].tolist()):
            yield f"route {place}: {wrong}"
        elif list(route.ports) != [ports[link] for link in links]:
            yield f"route {place}: ports {list(route.ports)} are not those of its links"
        elif route.nodes not in (
            (),
            (names[route.source], names[route.target]),
            tuple(topology.node_names[tails[link]] for link in links),
        ):
            yield f"route {place}: names nodes that are not on its way"


def _wrong_layers(route: FileRoute, planned: list[int]) -> str:
    """Return the difference between the layers of the hops and the plan's; empty if they are equal."""
    found = list(route.hop_layers) or [route.layer] * len(planned)
    if found == planned:
        return ""
    if route.flow is None:
        return "its layer changes on the way, which a file of version 1 does not say; write it again"
    return f"layers {found}, the plan has {planned}"


def own_faults(file: RouteFile) -> Iterator[str]:
    """Yield all errors that the file alone shows.

    Files of version 1 have neither flows nor the layers of later hops, so only their chunks are checked.
    """
    yield from _chunk_faults(file)
    if file.queue_pairs is None:
        return
    yield from _flow_faults(file)
    faults = list(_layer_faults(file))
    yield from faults or _dependency_cycle(file)


def _chunk_faults(file: RouteFile) -> Iterator[str]:
    """Yield routes whose number or first chunk does not follow that of the pair's previous route."""
    following: dict[tuple[int, int], tuple[int, int]] = {}
    for place, route in enumerate(file.routes):
        pair = (route.source, route.target)
        number, first = following.get(pair, (0, 0))
        if (route.number, route.first_chunk) != (number, first):
            yield f"route {place}: expected route {number} of its pair, from chunk {first}"
        following[pair] = number + 1, first + route.chunks


def _flow_faults(file: RouteFile) -> Iterator[str]:
    """Yield flow ids out of range or used twice in a pair, and queue pairs unlike the flows sent."""
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


def _layer_faults(file: RouteFile) -> Iterator[str]:
    """Yield layers that are not one per hop, do not begin with the route's, or exceed the file's number."""
    for place, route in enumerate(file.routes):
        layers = route.hop_layers
        if layers and (len(layers) != len(route.links) or layers[0] != route.layer):
            yield f"route {place}: layers {list(layers)}: expected one for each hop, the first {route.layer}"
        highest = max(layers or (route.layer,))
        if file.n_layers is not None and highest >= file.n_layers:
            yield f"route {place}: layer {highest} is beyond the {file.n_layers} of the file"


def _dependency_cycle(file: RouteFile) -> Iterator[str]:
    """Yield a cycle of channels (layer, link), each held while a route waits for the next, if any."""
    earlier: dict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)
    later: dict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)
    for route in file.routes:
        layers = route.hop_layers or (route.layer,) * len(route.links)
        for held, wanted in pairwise(zip(layers, route.links, strict=True)):
            earlier[wanted].add(held)
            later[held].add(wanted)
    # Kahn's algorithm on the channel dependency graph; the channels that remain are on or behind a cycle.
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
    at = min(
        waiting
    )  # Every remaining channel waits for another remaining one: following them ends in a cycle.
    while at not in seen:
        seen[at] = len(seen)
        at = min(held for held in earlier[at] if held in waiting)
    cycle = [channel for channel, number in seen.items() if number >= seen[at]][::-1]
    names = ", ".join(f"{link} in layer {layer}" for layer, link in cycle[:8])
    yield f"{len(cycle)} links wait for each other: {names}" + (", ..." if len(cycle) > 8 else "")
