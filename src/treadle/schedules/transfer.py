"""Takes a schedule from one fabric to another that has the same nodes and links by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from treadle.arrays import Int32Array
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import Collective
from treadle.schedules.factored import FactoredForest, FactoredSchedule
from treadle.schedules.schedule import Schedule
from treadle.schedules.steps.steps import Steps
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.topologies.topology import Topology


def transfer_collective(collective: Collective, source: Topology, target: Topology) -> Collective:
    """The collective on the nodes of the same names; TopologyError if one is missing."""
    return replace(
        collective,
        ranks=tuple(target.node_index(source.node_names[node]) for node in collective.ranks),
        forwarders=tuple(target.node_index(source.node_names[node]) for node in collective.forwarders),
    )


def transfer_schedule(
    schedule: Schedule, source: Topology, target: Topology, numbers: Int32Array | None = None
) -> Schedule:
    """The schedule with the link numbers of `target`.

    Parallel links correspond in their order, unless `numbers` say for each link of `source` which one it is.

    Raises
    ------
    TopologyError, ScheduleError
        If `target` lacks a node or a link that the schedule uses.
    """
    places = _link_numbers(source, target) if numbers is None else numbers

    def moved(links: Int32Array) -> Int32Array:
        return _moved(links, places, source, target)

    return _with_links(schedule, moved)


def lost_links(schedule: Schedule, source: Topology, target: Topology) -> list[int]:
    """Numbers of the links of `source`, rising, that a schedule uses and `target` lacks.

    Raises
    ------
    ScheduleError
        If it uses one that `source` itself lacks.
    """
    places, lost = _link_numbers(source, target), np.zeros(source.n_links, dtype=bool)

    def noted(links: Int32Array) -> Int32Array:
        _check_known(links, source)
        lost[links] |= places[links] < 0
        return links

    _with_links(schedule, noted)
    return [int(link) for link in np.flatnonzero(lost)]


def _with_links(schedule: Schedule, moved: Callable[[Int32Array], Int32Array]) -> Schedule:
    """The schedule with every array of link numbers replaced."""
    if isinstance(schedule, ForestSchedule):
        return replace(
            schedule,
            reduce=_moved_forest(schedule.reduce, moved),
            broadcast=_moved_forest(schedule.broadcast, moved),
        )
    if isinstance(schedule, GroupSchedule):
        return replace(
            schedule,
            groups=tuple(
                replace(
                    one,
                    reduce=_moved_forest(one.reduce, moved),
                    broadcast=_moved_forest(one.broadcast, moved),
                )
                for one in schedule.groups
            ),
        )
    if isinstance(schedule, FactoredSchedule):
        return replace(
            schedule,
            reduce=_moved_pieces(schedule.reduce, moved),
            broadcast=_moved_pieces(schedule.broadcast, moved),
        )
    if isinstance(schedule, ExchangeSchedule):
        return replace(schedule, sends=_moved_sends(schedule.sends, moved))
    if isinstance(schedule, RouteSchedule):
        return replace(schedule, path_links=moved(schedule.path_links))
    if isinstance(schedule, TimedRoutes):
        routes = schedule.routes
        return replace(schedule, routes=replace(routes, path_links=moved(routes.path_links)))
    return replace(
        schedule,
        reduce=_moved_steps(schedule.reduce, moved),
        broadcast=_moved_steps(schedule.broadcast, moved),
    )


def _link_numbers(source: Topology, target: Topology) -> Int32Array:
    """Number in `target` of each link of `source`, -1 where it has none, shape (m,)."""
    known = {name: node for node, name in enumerate(target.node_names)}
    node = np.array([known.get(name, -1) for name in source.node_names], dtype=np.int64)
    tails, heads = node[source.tails], node[source.heads]
    here = np.where((tails < 0) | (heads < 0), -1, tails * target.n_nodes + heads)
    there = target.tails.astype(np.int64) * target.n_nodes + target.heads
    # the i-th of parallel links meets the i-th: both sides sorted by ends, in the order of their numbers
    order, places = np.argsort(here, kind="stable"), np.argsort(there, kind="stable")
    wanted, offered = here[order], there[places]
    turn = np.arange(len(order)) - np.searchsorted(wanted, wanted)
    place = np.searchsorted(offered, wanted) + turn
    there_is = (wanted >= 0) & (place < np.searchsorted(offered, wanted, side="right"))
    numbers = np.full(source.n_links, -1, dtype=np.int32)
    numbers[order[there_is]] = places[place[there_is]]
    return numbers


def _moved_forest(forest: Forest | None, moved: Callable[[Int32Array], Int32Array]) -> Forest | None:
    return None if forest is None else forest.with_links(moved)


def _moved_pieces(
    forest: FactoredForest | None, moved: Callable[[Int32Array], Int32Array]
) -> FactoredForest | None:
    """The pieces on other links; ScheduleError where these are in another order, by which pieces count."""
    if forest is None:
        return None
    layers = tuple(replace(layer, links=moved(layer.links)) for layer in forest.layers)
    return replace(forest, layers=layers)


def _moved_steps(steps: Steps | None, moved: Callable[[Int32Array], Int32Array]) -> Steps | None:
    return None if steps is None else _moved_sends(steps, moved)


def _moved_sends(steps: Steps, moved: Callable[[Int32Array], Int32Array]) -> Steps:
    if steps.has_paths:
        return replace(steps, way_links=moved(steps.way_links))
    return replace(steps, link=moved(steps.link))


def _moved(links: Int32Array, numbers: Int32Array, source: Topology, target: Topology) -> Int32Array:
    _check_known(links, source)
    moved = numbers[links]
    lost = np.flatnonzero(moved < 0)
    if lost.size:
        name = source.link_name(int(links[lost[0]]))
        raise ScheduleError(f"the schedule uses link {name}, which {target.name} does not have")
    moved.setflags(write=False)
    return moved


def _check_known(links: Int32Array, source: Topology) -> None:
    beyond = np.flatnonzero((links < 0) | (links >= source.n_links))
    if beyond.size:
        raise ScheduleError(
            f"the schedule uses link number {links[beyond[0]]}, {source.name} has {source.n_links} links"
        )
