"""Steps of an all-to-all from weighted routes: hop by hop, or pipelined at nearly the routes' rate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array
from treadle.context import context
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.steps.route_runs import RouteRuns, exchange_of, route_runs
from treadle.synthesis.runs import positions_in_runs
from treadle.topologies.topology import Topology

MAX_CHUNKS = 2**16
"""Default limit of chunks per shard."""

_PASSES = 8
"""Turns of filling hosts' caps and links in a step."""

_CHUNKS_PER_STEP = 8
"""Least chunks of the busiest link in a step, so that steps can be filled evenly."""


def hop_synchronous(
    topology: Topology, collective: Collective, routes: RouteSchedule, *, max_chunks: int = MAX_CHUNKS
) -> ExchangeSchedule:
    """Run hop h of every route in step h: the fewest steps that the routes allow.

    Parameters
    ----------
    topology : Topology
        Of compute nodes; every one may forward.
    collective : Collective
        An all-to-all.
    routes : RouteSchedule
        Routes of it.
    max_chunks : int
        Limit of chunks per shard. Shares that need more are rounded.

    Returns
    -------
    ExchangeSchedule

    Raises
    ------
    ScheduleError
        If the routes do not implement the collective, or pass a switch.

    Notes
    -----
    Optimal if each hop alone loads all links equally, as the shortest paths of hypercubes, complete
    bipartite graphs and odd tori do: the loads of all hops then add up to those of the routes.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.synthesis.alltoall.routes.shortest_paths import split_over_shortest_paths
    >>> from treadle.topologies.catalogue.graphs import hypercube
    >>> cube = hypercube(3)
    >>> collective = on_all_ranks(cube, CollectiveKind.ALLTOALL)
    >>> hop_synchronous(cube, collective, split_over_shortest_paths(cube, collective))
    <ExchangeSchedule: 8 ranks, 56 shards of 6 chunks, 3 steps, 240 sends>
    """
    parts = route_runs(topology, collective, routes, max_chunks)
    return exchange_of(
        parts, parts.hop, np.arange(len(parts.hop)), parts.low[parts.path], parts.high[parts.path]
    )


def pipelined(
    topology: Topology,
    collective: Collective,
    routes: RouteSchedule,
    *,
    rounds: int,
    max_chunks: int = MAX_CHUNKS,
) -> ExchangeSchedule:
    """Run the routes in steps of equal length, in which every link carries what it can of its queue.

    Parameters
    ----------
    topology : Topology
        Of compute nodes; every one may forward.
    collective : Collective
        An all-to-all.
    routes : RouteSchedule
        Routes of it, for instance of an optimal multi-commodity flow.
    rounds : int
        K >= 1: a step lasts 1/K of the time for which the routes keep their busiest link (or capped host)
        busy. More rounds approach the routes' rate and take more steps.
    max_chunks : int
        Limit of chunks per shard. Where the routes' shares need more, they are rounded.

    Returns
    -------
    ExchangeSchedule
        Of K steps or more.

    Raises
    ------
    ScheduleError
        If the routes do not implement the collective, or pass a switch.
    TimeLimitError
        If the deadline passed.

    Notes
    -----
    Of the chunks that wait for a link, those with the most links ahead go first (farthest to go first, after
    Leighton, Maggs and Rao, Packet routing and job-shop scheduling, Combinatorica 14, 1994). K rounds of the
    routes, one after another, take (K + D - 1)/K of their time for longest route D, since the first and last
    steps leave links idle. Here links are busy while anything waits for them, and a share of a route that
    fits into a step is one message, so there are few more sends than hops. If a step would hold fewer than 8
    chunks, chunks are made smaller. Each step takes time linear in the hops.
    """
    if rounds < 1:
        raise ScheduleError(f"rounds: expected at least 1, found {rounds}")
    parts = route_runs(topology, collective, routes, max_chunks)
    # Smaller chunks, if a step holds few of them.
    busiest = int(np.bincount(parts.link, weights=(parts.high - parts.low)[parts.path]).max())
    times = min(-(-_CHUNKS_PER_STEP * rounds // busiest), max_chunks // parts.n_chunks)
    parts = parts.in_smaller_chunks(max(times, 1))
    size, weight = (parts.high - parts.low)[parts.path], parts.weight[parts.shard[parts.path]]
    turns = _turns(topology, parts, size * weight, weight, rounds)
    start, is_first, left = parts.low[parts.path], parts.hop == 0, parts.total
    sent = np.zeros_like(size)
    sends: list[tuple[Int64Array, ...]] = []
    while left:
        context().report("steps", parts.total - left, parts.total)
        waiting = np.where(is_first, size, np.roll(sent, 1)) - sent
        taken = np.zeros_like(waiting)
        for turn in turns:
            wanted = waiting - taken
            for limits in turn:
                limits.reduce(wanted, weight, taken)
            taken += wanted
        row = np.flatnonzero(taken)
        assert row.size  # the first in each queue always fits
        low = (start + sent)[row]
        sends.append((np.full(len(row), len(sends)), row, low, low + taken[row]))
        sent += taken
        left -= int(taken.sum())
    return exchange_of(parts, *map(np.concatenate, zip(*sends, strict=True)))


@dataclass(frozen=True, eq=False)
class _HopLimits:
    """Capacities in a step of groups of hops: those of a link, or out of or into a capped host.

    Parameters
    ----------
    order : array of int64
        Hops by group, in the order in which they are sent.
    starts : array of int64
        Start of each group in `order`.
    capacity : array of int64, shape (groups,)
        In 1/P of a unit of demand.
    """

    order: Int64Array
    starts: Int64Array
    capacity: Int64Array

    def reduce(self, wanted: Int64Array, weight: Int64Array, taken: Int64Array) -> None:
        """Reduce the demand of each hop to what fits into the free capacity."""
        amount = (wanted * weight)[self.order]
        before = np.cumsum(amount) - amount
        sizes = np.diff(np.append(self.starts, len(self.order)))
        left = self.capacity - np.add.reduceat((taken * weight)[self.order], self.starts)
        free = np.repeat(left + before[self.starts], sizes) - before
        fits = np.maximum(free, 0) // weight[self.order]
        wanted[self.order] = np.minimum(wanted[self.order], fits)


def _turns(
    topology: Topology, parts: RouteRuns, amount: Int64Array, weight: Int64Array, rounds: int
) -> list[list[_HopLimits]]:
    """Return the limits of each turn of a step: of links, and of hosts' injection caps, out and in."""
    hosts = topology.injection_bytes_per_s
    groups = [(parts.link, topology.bandwidths)]
    if hosts.any():
        groups += [(ends[parts.link].astype(np.int64), hosts) for ends in (topology.tails, topology.heads)]
    loads = [np.bincount(group, weights=amount, minlength=len(rates)) for group, rates in groups]
    slowest = max(
        Fraction(int(load[rates == rate].max()), int(rate))
        for load, (_, rates) in zip(loads, groups, strict=True)
        for rate in np.unique(rates[rates > 0])
    )
    place, share, result = _places(parts), slowest / rounds, []
    for load, (group, rates) in zip(loads, groups, strict=True):
        chosen = np.flatnonzero(rates[group] > 0)
        order = chosen[np.lexsort((place[chosen], group[chosen]))]
        members, starts = np.unique(group[order], return_index=True)
        # Rounded up to whole chunks, so that no small remainder needs a step.
        capacity = [
            min(-(-share.numerator * int(rates[member]) // share.denominator), int(load[member]))
            for member in members
        ]
        least = np.maximum.reduceat(weight[order], starts)
        result.append(_HopLimits(order, starts, np.maximum(np.array(capacity, dtype=np.int64), least)))
    if len(result) == 1:
        return [result]
    # Capped hosts first give each link an even part of its data over all rounds, then what is left.
    links = result[0]
    even = -(-np.add.reduceat(amount[links.order], links.starts) // rounds)
    return [[replace(links, capacity=np.maximum(even, 1)), *result], *[result] * (_PASSES - 1)]


def _places(parts: RouteRuns) -> Int64Array:
    """Return the position of each hop in its link's queue, farthest to go first.

    Hosts order the hops of all their links by it, so that they use the links equally.
    """
    last = np.append(parts.path[1:] != parts.path[:-1], True)
    to_go = (parts.hop[last] + 1)[parts.path] - parts.hop
    turn = (parts.target - parts.source)[parts.shard[parts.path]] % parts.n_ranks
    order = np.lexsort((turn, -to_go, parts.link))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = positions_in_runs(parts.link[order])
    return place
