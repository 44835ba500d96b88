"""Assignment of messages between ranks to paths of a fabric.

A message takes the path that its file names, if the fabric has these switches; otherwise the widest of the
shortest paths through switches, unless paths are part of the schedule (as in trees): then the file does not
fit the fabric. Of several equal paths each message takes the one least loaded by the messages before it, like
adaptive routing in switches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from math import lcm

import numpy as np

from treadle.arrays import offsets_of
from treadle.program.foreign.physical_paths import Links, PhysicalPaths
from treadle.program.foreign.switch_names import SwitchNames, find_switches
from treadle.program.foreign.traffic import Traffic, Way
from treadle.program.program import OperationKind, Program
from treadle.schedules.collective import Collective
from treadle.spelling import counted
from treadle.topologies.topology import Topology

_Named = tuple[int, Way, int]
"""Sender, names of the nodes between, and receiver."""
_MAX_LISTED = 4
"""Maximum number of ambiguous names listed in a note."""
_Message = tuple[int, int, Way, int]
"""Sender, receiver, names of the nodes between, and amount."""


@dataclass(frozen=True)
class Placement:
    """Paths of messages."""

    ways: list[Links | None]
    """Links of each message; None if no path joins its ranks."""
    faults: tuple[str, ...]
    """Pairs of ranks that no path joins, and named paths that the fabric lacks, each once."""
    notes: tuple[str, ...]
    """Ambiguous names, and the choices made."""


def route_messages(
    topology: Topology,
    collective: Collective,
    messages: Sequence[_Message],
    places: Mapping[_Named, str] | None = None,
) -> Placement:
    """Choose paths for messages, in their order.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    messages : sequence of (sender, receiver, names, amount)
    places : mapping of (sender, names, receiver) to str, optional
        Paths that must be the named ones, and the location of each in the file.
    """
    ways = PhysicalPaths(topology, collective)
    named = {(sender, way, receiver) for sender, receiver, way, _ in messages}
    switches = find_switches(topology, collective, named)
    if places is not None and (wrong := tuple(_no_ways(topology, ways, switches, places))):
        return Placement([None] * len(messages), wrong, ())
    choices = {
        key: (_along(ways, switches, key) if key[1] and switches.nodes else ()) or ways.between(*key[::2])
        for key in sorted(named)
    }
    placed = _assign(topology, messages, choices)
    lost = Counter(
        (sender, receiver)
        for (sender, receiver, _, _), path in zip(messages, placed, strict=True)
        if not path
    )
    names = [topology.node_names[node] for node in collective.ranks]
    faults = tuple(
        f"rank {sender} sends to rank {receiver} ({count} messages), but no path leads through switches from "
        f"{names[sender]} to {names[receiver]} of {topology.name}"
        for (sender, receiver), count in sorted(lost.items())
    )
    return Placement(placed, faults, tuple(_notes(topology, ways, switches, choices)))


def route_program(
    topology: Topology, collective: Collective, traffic: Traffic
) -> tuple[Program | None, Placement]:
    """Return the program with the paths of its sends; None if some send has no path."""
    program = traffic.program
    sends = np.flatnonzero(program.operation_kind == OperationKind.SEND)
    order = sends[np.lexsort((sends, program.step[sends]))]
    ranks = program.operation_rank
    messages = [
        (int(ranks[send]), int(program.peer[send]), traffic.ways.get(send, ()), int(program.count[send]))
        for send in order.tolist()
    ]
    placement = route_messages(topology, collective, messages)
    if placement.faults:
        return None, placement
    numbers: dict[Links, int] = {}
    path = np.full(program.n_operations, -1, dtype=np.int32)
    for send, links in zip(order.tolist(), placement.ways, strict=True):
        assert links is not None
        path[send] = numbers.setdefault(links, len(numbers))
    placed = replace(
        program,
        nodes=np.array(collective.ranks, dtype=np.int32),
        path=path,
        path_offset=offsets_of([*map(len, numbers)]),
        path_links=np.array([*chain.from_iterable(numbers)], dtype=np.int32),
    )
    return placed, placement


def _no_ways(
    topology: Topology, ways: PhysicalPaths, switches: SwitchNames, places: Mapping[_Named, str]
) -> Iterator[str]:
    """Yield the named paths that the fabric lacks; each unknown or unplaced name only once."""
    reported: set[str] = set()
    for key, place in places.items():
        sender, way, receiver = key
        where = f"{place}: the path from rank {sender} to rank {receiver}"
        unknown = [name for name in way if name in switches.strangers]
        if unknown and unknown[0] not in reported:
            reported.add(unknown[0])
            yield f"{where} passes {unknown[0][:60]}, which {topology.name} does not have"
        elif not way or unknown:
            continue
        elif not switches.nodes and not switches.strangers and not reported & set(way):
            reported.update(way)
            yield (f"{where} passes {way[0][:60]}, but {topology.name} has no switches with the file's links")
        elif switches.nodes and not _along(ways, switches, key):
            through = ", ".join(topology.node_names[switches.nodes[name]] for name in way)
            yield f"{where} passes {through[:120]}, but {topology.name} does not have all of its links"


def _along(ways: PhysicalPaths, switches: SwitchNames, key: _Named) -> tuple[Links, ...]:
    """Return the paths over the named switches."""
    sender, way, receiver = key
    # Adjacent names may mean one switch.
    through = groupby(switches.nodes[name] for name in way)
    return ways.along(sender, receiver, [node for node, _ in through])


def _ambiguous(topology: Topology, switches: SwitchNames) -> str:
    """Return a note of the switches chosen for names that may mean several."""
    names = sorted(switches.others, key=lambda name: (len(name), name))
    listed = []
    for name in names[:_MAX_LISTED]:
        others = [topology.node_names[node] for node in switches.others[name]]
        rest = f" and {len(others) - 2} more" if len(others) > 2 else ""
        chosen = topology.node_names[switches.nodes[name]]
        listed.append(f"{name} is taken as {chosen}, and may be {', '.join(others[:2])}{rest}")
    more = f"; and {len(names) - _MAX_LISTED} more names" if len(names) > _MAX_LISTED else ""
    return f"switches of the file may be several of the fabric's: {'; '.join(listed)}{more}"


def _assign(
    topology: Topology,
    messages: Sequence[_Message],
    choices: dict[_Named, tuple[Links, ...]],
) -> list[Links | None]:
    """Return a path for each message: among several the one whose busiest link has the least load."""
    common = lcm(*set(topology.bandwidths.tolist()))
    cost = [common // bandwidth for bandwidth in topology.bandwidths.tolist()]
    busy = [0] * topology.n_links
    placed: list[Links | None] = []
    for sender, receiver, names, amount in messages:
        paths = choices[sender, names, receiver]
        path = paths[0] if paths else None
        if len(paths) > 1:
            path = min(paths, key=lambda links: max(busy[link] + amount * cost[link] for link in links))
        for link in path or ():
            busy[link] += amount * cost[link]
        placed.append(path)
    return placed


def _notes(
    topology: Topology,
    ways: PhysicalPaths,
    switches: SwitchNames,
    choices: dict[_Named, tuple[Links, ...]],
) -> Iterable[str]:
    named = [key for key in choices if key[1]]
    if named and not switches.nodes:
        yield (
            "the switches of the file have no counterpart in the fabric: messages take the widest of the "
            "shortest paths"
        )
        named = []
    if switches.others:
        yield _ambiguous(topology, switches)
    lost = [key for key in named if not _along(ways, switches, key)]
    if lost:
        sender, way, receiver = lost[0]
        yield (
            f"{counted(len(lost), 'named path')} of the file not in the fabric, first {sender} to {receiver} "
            f"via {' -> '.join(way)[:60]}: their messages take the widest of the shortest paths"
        )
    several = {(sender, receiver) for (sender, _, receiver), ways in choices.items() if len(ways) > 1}
    if several:
        pairs = len({(sender, receiver) for sender, _, receiver in choices})
        yield (
            f"{len(several)} of {pairs} pairs of ranks have several equal paths: each message takes the "
            "least loaded"
        )
