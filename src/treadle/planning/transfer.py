"""Takes a schedule from one fabric to another that has the same nodes and links by name."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from treadle.arrays import Int32Array
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective
from treadle.schedules.forest import Forest, ForestSchedule
from treadle.topologies.topology import Topology


def transfer_collective(collective: Collective, source: Topology, target: Topology) -> Collective:
    """The collective on the nodes of the same names; TopologyError if one is missing."""
    return replace(
        collective,
        ranks=tuple(target.node_index(source.node_names[node]) for node in collective.ranks),
        forwarders=tuple(target.node_index(source.node_names[node]) for node in collective.forwarders),
    )


def transfer_schedule(schedule: ForestSchedule, source: Topology, target: Topology) -> ForestSchedule:
    """The schedule with the link numbers of `target`.

    Parallel links correspond in their order.

    Raises
    ------
    TopologyError, ScheduleError
        If `target` lacks a node or a link that the schedule uses.
    """
    numbers = _link_numbers(source, target)
    return ForestSchedule(
        schedule.kind,
        reduce=_moved(schedule.reduce, numbers, source, target),
        broadcast=_moved(schedule.broadcast, numbers, source, target),
    )


def _link_numbers(source: Topology, target: Topology) -> Int32Array:
    """Number in `target` of each link of `source`, -1 where it has none, shape (m,)."""
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    for link in range(target.n_links - 1, -1, -1):
        places[_ends(target, link)].append(link)
    numbers = np.full(source.n_links, -1, dtype=np.int32)
    for link in range(source.n_links):
        found = places.get(_ends(source, link))
        if found:
            numbers[link] = found.pop()
    return numbers


def _ends(topology: Topology, link: int) -> tuple[str, str]:
    return topology.node_names[topology.tails[link]], topology.node_names[topology.heads[link]]


def _moved(forest: Forest | None, numbers: Int32Array, source: Topology, target: Topology) -> Forest | None:
    if forest is None:
        return None
    moved = numbers[forest.path_links]
    lost = np.flatnonzero(moved < 0)
    if lost.size:
        name = source.link_name(int(forest.path_links[lost[0]]))
        raise ScheduleError(f"the schedule uses link {name}, which {target.name} does not have")
    return replace(forest, path_links=moved)
