"""Costs of routes of an all-to-all: exact loads, bandwidth, time at a size."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import sums_of
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import Collective
from treadle.schedules.link_times import slowest
from treadle.topologies.topology import Topology

_SAFE = 2.0**62
"""Sums below this fit 64 bits."""


def route_loads(topology: Topology, schedule: RouteSchedule) -> NDArray[Any]:
    """Return chunks over each link, shape (m,): int64, or Python integers where these could overflow."""
    total = float(schedule.units.astype(np.float64) @ schedule.hops)
    load = np.zeros(topology.n_links, dtype=np.int64 if total < _SAFE else object)
    np.add.at(load, schedule.path_links, np.repeat(schedule.units.astype(load.dtype), schedule.hops))
    return load


def route_time(topology: Topology, collective: Collective, schedule: RouteSchedule) -> Fraction:
    """Return the time per unit of demand if all chunks move together: the paper's all-to-all time, 1/F.

    The time of the busiest link, or of the data that a host with an injection cap itself sends or receives.
    """
    time = slowest(route_loads(topology, schedule), topology.bandwidths) / schedule.n_chunks
    caps = topology.injection_bytes_per_s[np.array(collective.ranks)]
    own = np.maximum(*collective.pair_demands.totals)
    return max(time, slowest(own[caps > 0], caps[caps > 0]))


def round_times(topology: Topology, collective: Collective, schedule: TimedRoutes) -> list[Fraction]:
    """Return the time of each round per unit of demand, without latencies; its chunks share links."""
    routes = schedule.routes
    caps = topology.injection_bytes_per_s[np.array(collective.ranks)]
    times = []
    for number in range(schedule.n_rounds):
        paths, chunks = np.unique(schedule.path[schedule.span(number)], return_counts=True)
        load = np.zeros(topology.n_links, dtype=np.int64)
        for path, count in zip(paths.tolist(), chunks.tolist(), strict=True):
            load[routes.path(path)] += count
        used = np.flatnonzero(load)
        time = slowest(load[used], topology.bandwidths[used])
        for ends in (routes.source, routes.target):
            own = sums_of(routes.n_ranks, ends[paths], chunks)
            time = max(time, slowest(own[caps > 0], caps[caps > 0]))
        times.append(time / routes.n_chunks)
    return times


def route_algbw(
    topology: Topology, collective: Collective, schedule: RouteSchedule | TimedRoutes
) -> Fraction:
    """Return the asymptotic algorithmic bandwidth, bytes/s, exact: the larger per-rank buffer over the time.

    Raises
    ------
    ScheduleError
        If nothing is sent.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.schedules.alltoall.routes import routes_from_paths
    >>> from treadle.topologies.catalogue.direct import from_arcs
    >>> pair = from_arcs("pair", [0, 1], [1, 0], n=2)
    >>> routes = routes_from_paths(2, 1, [(0, 1, 1, 0, [0]), (1, 0, 1, 0, [1])])
    >>> route_algbw(pair, on_all_ranks(pair, CollectiveKind.ALLTOALL), routes)
    Fraction(2, 1)
    """
    if isinstance(schedule, TimedRoutes):
        time = sum(round_times(topology, collective, schedule), Fraction(0))
    else:
        time = route_time(topology, collective, schedule)
    if not time:
        raise ScheduleError("the routes carry nothing, so they have no throughput")
    return collective.pair_demands.buffer_units / time


def route_runtime(
    topology: Topology,
    collective: Collective,
    schedule: RouteSchedule | TimedRoutes,
    size_bytes: int,
    *,
    alpha_ns: int = 0,
) -> Fraction:
    """Return the time of the alpha-beta model for cut-through, seconds, exact.

    In each round: the start-up, the latency of the longest path, and the bytes over the fullest link.

    Parameters
    ----------
    topology : Topology
        The latencies of its links count, along each path.
    collective : Collective
    schedule : RouteSchedule or TimedRoutes
        Without rounds, all chunks start together: one round.
    size_bytes : int
        The larger per-rank buffer.
    alpha_ns : int
        Nanoseconds until a host has started the flows of a round.

    Notes
    -----
    An upper bound on the time of cut-through forwarding: the last byte leaves when the fullest link has sent
    all its bytes, and then takes the longest path. Store and forward would add the time of the bytes at every
    hop. Each round waits for the slowest host; if ranks wait only for their own data, rounds overlap and may
    take less.
    """
    routes = schedule.routes if isinstance(schedule, TimedRoutes) else schedule
    owner = np.repeat(np.arange(routes.n_paths), routes.hops)
    path_ns = sums_of(routes.n_paths, owner, topology.latencies_ns[routes.path_links])
    if isinstance(schedule, TimedRoutes):
        times = round_times(topology, collective, schedule)
        rounds = [path_ns[schedule.path[schedule.span(number)]] for number in range(schedule.n_rounds)]
    else:
        times, rounds = [route_time(topology, collective, routes)], [path_ns]
    latency_ns = sum(alpha_ns + int(paths.max(initial=0)) for paths in rounds)
    moving = sum(times, Fraction(0)) * Fraction(size_bytes, collective.pair_demands.buffer_units)
    return Fraction(latency_ns, 10**9) + moving
