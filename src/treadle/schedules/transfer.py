"""Transfer of a schedule from one fabric to another whose nodes and links have the same names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from treadle.arrays import Int32Array
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import Collective
from treadle.schedules.factored import FactoredForest, FactoredSchedule, Layer
from treadle.schedules.schedule import Schedule
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.topologies.topology import Topology


def transfer_collective(collective: Collective, source: Topology, target: Topology) -> Collective:
    """Return the collective on the nodes of the same names; TopologyError if one is missing."""
    return replace(
        collective,
        ranks=tuple(target.node_index(source.node_names[node]) for node in collective.ranks),
        forwarders=tuple(target.node_index(source.node_names[node]) for node in collective.forwarders),
    )


def transfer_schedule(
    schedule: Schedule, source: Topology, target: Topology, numbers: Int32Array | None = None
) -> Schedule:
    """Return the schedule with the link numbers of `target`.

    Parallel links correspond in their order, unless `numbers` has the new number of each link of `source`.

    Raises
    ------
    TopologyError, ScheduleError
        If `target` lacks a node or a link that the schedule uses.
    """
    places = _link_numbers(source, target) if numbers is None else numbers

    def moved(links: Int32Array) -> Int32Array:
        _check_known(links, source)
        found = places[links]
        for link in links[found < 0][:1]:
            raise ScheduleError(
                f"the schedule uses link {source.link_name(int(link))}, which {target.name} does not have"
            )
        found.setflags(write=False)
        return found

    changed: Schedule = _with_links(schedule, moved)
    return changed


def lost_links(schedule: Schedule, source: Topology, target: Topology) -> list[int]:
    """Return the links of `source`, rising, that a schedule uses and `target` lacks.

    ScheduleError if it uses one that `source` itself lacks.
    """
    places, lost = _link_numbers(source, target), np.zeros(source.n_links, dtype=bool)

    def noted(links: Int32Array) -> Int32Array:
        _check_known(links, source)
        lost[links] |= places[links] < 0
        return links

    _with_links(schedule, noted)
    return np.flatnonzero(lost).tolist()


_LINKS: Mapping[type, tuple[str, ...]] = {
    **dict.fromkeys((ForestSchedule, FactoredSchedule, StepSchedule), ("reduce", "broadcast")),
    GroupSchedule: ("groups",),
    ExchangeSchedule: ("sends",),
    TimedRoutes: ("routes",),
    RouteSchedule: ("path_links",),
    Forest: ("path_links",),
    FactoredForest: ("layers",),
    Layer: ("links",),
}
"""Fields of schedules and their parts that are link numbers, or parts with link numbers."""


def _with_links(value: Any, moved: Callable[[Int32Array], Int32Array]) -> Any:
    """Return a schedule or a part of one with every array of link numbers replaced.

    ScheduleError if the links of a subproblem change their order, which its local numbers depend on.
    """
    if value is None:
        return None
    if isinstance(value, np.ndarray):
        return moved(value)
    if isinstance(value, tuple):
        return tuple(_with_links(part, moved) for part in value)
    if isinstance(value, Steps):
        fields: tuple[str, ...] = ("way_links",) if value.has_paths else ("link",)
    else:
        fields = _LINKS[type(value)]
    return replace(value, **{key: _with_links(getattr(value, key), moved) for key in fields})


def _link_numbers(source: Topology, target: Topology) -> Int32Array:
    """Return the number in `target` of each link of `source`, -1 where it is missing, shape (m,)."""
    known = {name: node for node, name in enumerate(target.node_names)}
    node = np.array([known.get(name, -1) for name in source.node_names], dtype=np.int64)
    tails, heads = node[source.tails], node[source.heads]
    here = np.where((tails < 0) | (heads < 0), -1, tails * target.n_nodes + heads)
    there = target.tails.astype(np.int64) * target.n_nodes + target.heads
    # the i-th of parallel links corresponds to the i-th: both sides are sorted by ends, then by number
    order, places = np.argsort(here, kind="stable"), np.argsort(there, kind="stable")
    wanted, offered = here[order], there[places]
    turn = np.arange(len(order)) - np.searchsorted(wanted, wanted)
    place = np.searchsorted(offered, wanted) + turn
    there_is = (wanted >= 0) & (place < np.searchsorted(offered, wanted, side="right"))
    numbers = np.full(source.n_links, -1, dtype=np.int32)
    numbers[order[there_is]] = places[place[there_is]]
    return numbers


def _check_known(links: Int32Array, source: Topology) -> None:
    """Raise ScheduleError for a link that a fabric does not have."""
    for link in links[(links < 0) | (links >= source.n_links)][:1]:
        raise ScheduleError(f"the schedule uses link number {link}, {source.name} has {source.n_links} links")
