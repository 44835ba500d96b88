"""Puts messages between ranks on the links of a fabric.

A message takes the way that its file names, if the fabric has the switches that are meant; else the widest of
the shortest ways through switches, unless the ways are part of what the file says (trees are): then it is at
fault. Of several equal ways each message takes the one that is least loaded by
those before it, as switches that adapt would choose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
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
"""Sender, names on the way, and receiver."""
_MOST_TOLD = 4
"""Of names that may mean several switches."""
_Message = tuple[int, int, Way, int]
"""Sender, receiver, names on the way, and amount."""


@dataclass(frozen=True)
class Placement:
    """Ways of messages.

    Parameters
    ----------
    ways : list of tuple of int, or None
        Links of each message; None where nothing leads there.
    faults : tuple of str
        Pairs of ranks that no way joins, and named ways that are none, each once.
    notes : tuple of str
        What was ambiguous, and what was chosen.
    """

    ways: list[Links | None]
    faults: tuple[str, ...]
    notes: tuple[str, ...]


def route_messages(
    topology: Topology,
    collective: Collective,
    messages: Sequence[_Message],
    places: Mapping[_Named, str] | None = None,
) -> Placement:
    """Ways for messages, in their order.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    messages : sequence of (sender, receiver, names, amount)
    places : mapping of (sender, names, receiver) to str, optional
        Of ways that have to be those that are named: where the file names them.
    """
    ways = PhysicalPaths(topology, collective)
    named = {(sender, way, receiver) for sender, receiver, way, _ in messages}
    switches = find_switches(topology, collective, named)
    if places is not None and (wrong := tuple(_no_ways(topology, ways, switches, places))):
        return Placement([None] * len(messages), wrong, ())
    choices = {
        (sender, way, receiver): _choices(ways, switches, sender, way, receiver)
        for sender, way, receiver in sorted(named)
    }
    placed = _dealt_out(topology, messages, choices)
    lost = Counter(
        (sender, receiver) for (sender, receiver, _, _), way in zip(messages, placed, strict=True) if not way
    )
    names = [topology.node_names[node] for node in collective.ranks]
    faults = tuple(
        f"rank {sender} sends to rank {receiver} ({count} messages), and no way leads through switches from "
        f"{names[sender]} to {names[receiver]} of {topology.name}"
        for (sender, receiver), count in sorted(lost.items())
    )
    return Placement(placed, faults, tuple(_notes(topology, ways, switches, choices)))


def route_program(
    topology: Topology, collective: Collective, traffic: Traffic
) -> tuple[Program | None, Placement]:
    """A program with the paths of its sends; None where some send has none."""
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
    for send, way in zip(order.tolist(), placement.ways, strict=True):
        assert way is not None
        path[send] = numbers.setdefault(way, len(numbers))
    placed = replace(
        program,
        nodes=np.array(collective.ranks, dtype=np.int32),
        path=path,
        path_offset=offsets_of([len(way) for way in numbers]),
        path_links=np.array([link for way in numbers for link in way], dtype=np.int32),
    )
    return placed, placement


def _no_ways(
    topology: Topology, ways: PhysicalPaths, switches: SwitchNames, places: Mapping[_Named, str]
) -> Iterator[str]:
    """Named ways that the fabric has not; of a strange name, and of names that mean nothing, the first."""
    told: set[str] = set()
    for key, place in places.items():
        sender, way, receiver = key
        where = f"{place}: the path from rank {sender} to rank {receiver}"
        strange = [name for name in way if name in switches.strangers]
        if strange and strange[0] not in told:
            told.add(strange[0])
            yield f"{where} goes through {strange[0][:60]}, which {topology.name} has not"
        elif way and not strange and not switches.nodes and not switches.strangers and not told & set(way):
            told.update(way)
            lacking = f"no switches of {topology.name} were found that are joined as the file's"
            yield f"{where} goes through {way[0][:60]}, and {lacking}"
        elif way and switches.nodes and not strange and not _along(ways, switches, key):
            through = ", ".join(topology.node_names[switches.nodes[name]] for name in way)
            yield f"{where} goes through {through[:120]}, and {topology.name} has not all of its links"


def _along(ways: PhysicalPaths, switches: SwitchNames, key: _Named) -> tuple[Links, ...]:
    """The ways over the switches that are named."""
    sender, way, receiver = key
    # two names may mean one switch
    through = groupby(switches.nodes[name] for name in way)
    return ways.along(sender, receiver, [node for node, _ in through])


def _choices(
    ways: PhysicalPaths, switches: SwitchNames, sender: int, way: Way, receiver: int
) -> tuple[Links, ...]:
    """The ways that a message may take."""
    if way and switches.nodes and (found := _along(ways, switches, (sender, way, receiver))):
        return found
    return ways.between(sender, receiver)


def _ambiguous(topology: Topology, switches: SwitchNames) -> str:
    """Which switches were taken for names that may mean several."""
    names = sorted(switches.others, key=lambda name: (len(name), name))
    told = []
    for name in names[:_MOST_TOLD]:
        others = [topology.node_names[node] for node in switches.others[name]]
        rest = f" and {len(others) - 2} more" if len(others) > 2 else ""
        chosen = topology.node_names[switches.nodes[name]]
        told.append(f"{name} is taken as {chosen}, and may be {', '.join(others[:2])}{rest}")
    more = f"; so for {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else ""
    return f"switches that the file names may be several of the fabric's: {'; '.join(told)}{more}"


def _dealt_out(
    topology: Topology,
    messages: Sequence[_Message],
    choices: dict[tuple[int, Way, int], tuple[Links, ...]],
) -> list[Links | None]:
    """A way for each message: of several the one whose most loaded link would be busy for the least time."""
    bandwidths = topology.bandwidths.tolist()
    common = lcm(*set(bandwidths))
    cost = [common // bandwidth for bandwidth in bandwidths]
    busy = [0] * topology.n_links
    placed: list[Links | None] = []
    for sender, receiver, names, amount in messages:
        ways = choices[sender, names, receiver]
        if not ways:
            placed.append(None)
            continue
        way = ways[0]
        if len(ways) > 1:
            way = min(ways, key=lambda way: max(busy[link] + amount * cost[link] for link in way))
        for link in way:
            busy[link] += amount * cost[link]
        placed.append(way)
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
            "the switches that the file names have no counterpart in the fabric: messages take the widest of "
            "the shortest ways"
        )
        named = []
    if switches.others:
        yield _ambiguous(topology, switches)
    lost = [key for key in named if not _along(ways, switches, key)]
    if lost:
        sender, way, receiver = lost[0]
        yield (
            f"{counted(len(lost), 'named way')} of the file not in the fabric, first {sender} to {receiver} "
            f"via {' -> '.join(way)[:60]}: their messages take the widest of the shortest ways"
        )
    several = {(sender, receiver) for (sender, _, receiver), ways in choices.items() if len(ways) > 1}
    if several:
        pairs = len({(sender, receiver) for sender, _, receiver in choices})
        yield (
            f"{len(several)} of {pairs} pairs of ranks have several equal ways: each message takes the least "
            "loaded"
        )
