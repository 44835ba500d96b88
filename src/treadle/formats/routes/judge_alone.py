"""What is wrong with a route file by itself: shares, flow ids, queue pairs, layers that can deadlock.

Neither fabric nor plan is asked. Shares no code with the writer or the verifier.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from treadle.formats.routes.reader import RouteFile

_LEAST_FLOW, _MOST_FLOW = 0xC000, 0xFFFF
"""Source ports of RoCE flows: the dynamic range of UDP."""


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
