"""Steps of an all-to-all from weighted routes: hop by hop, or pipelined at nearly the routes' steady rate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from treadle.arrays import BoolArray, Int64Array
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
"""Turns in which hosts' caps and links are filled in a step."""

_CHUNKS_PER_STEP = 8
"""Least chunks that the busiest link carries in a step, so that steps can be filled evenly."""


def hop_synchronous(
    topology: Topology, collective: Collective, routes: RouteSchedule, *, max_chunks: int = MAX_CHUNKS
) -> ExchangeSchedule:
    """Hop h of every route in step h: the fewest steps that the routes allow.

    Parameters
    ----------
    topology : Topology
        Of compute nodes; every one may forward.
    collective : Collective
        An all-to-all.
    routes : RouteSchedule
        That carries it.
    max_chunks : int
        Limit of chunks per shard. Where the routes' shares need more, they are rounded.

    Returns
    -------
    ExchangeSchedule

    Raises
    ------
    ScheduleError
        If the routes do not serve the collective, or pass a switch.

    Notes
    -----
    Optimal if each hop by itself loads all links alike, as the shortest paths of hypercubes, complete
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
    """Steps of one length each, in which every link carries what it can of what is waiting for it.

    Parameters
    ----------
    topology : Topology
        Of compute nodes; every one may forward.
    collective : Collective
        An all-to-all.
    routes : RouteSchedule
        That carries it, for instance an optimal multi-commodity flow's.
    rounds : int
        K >= 1: a step lasts 1/K of the time for which the routes keep their busiest link (or capped host)
        busy. More rounds come nearer to the routes' rate and take more steps.
    max_chunks : int
        Limit of chunks per shard. Where the routes' shares need more, they are rounded.

    Returns
    -------
    ExchangeSchedule
        Of K steps or more.

    Raises
    ------
    ScheduleError
        If the routes do not serve the collective, or pass a switch.
    TimeLimitError
        If the deadline passed.

    Notes
    -----
    Where chunks wait for a link, those go first that have most links still before them (farthest to go
    first, after Leighton, Maggs and Rao, Packet routing and job-shop scheduling, Combinatorica 14, 1994).
    K rounds of the routes, one after another, take (K + D - 1)/K of their time, D the longest route: the
    first and last steps leave links idle. Here these are busy as long as anything waits for them, and a
    share of a route moves as one message where it fits into a step, so that there are few more sends than
    hops. Where a step would have room for less than 8 chunks, chunks are made smaller. Linear in the hops for
    each step.
    """
    if rounds < 1:
        raise ScheduleError(f"rounds: expected at least 1, found {rounds}")
    parts = route_runs(topology, collective, routes, max_chunks)
    # smaller chunks where a step has room for few of them
    busiest = int(np.bincount(parts.link, weights=(parts.high - parts.low)[parts.path]).max())
    times = min(-(-_CHUNKS_PER_STEP * rounds // busiest), max_chunks // parts.n_chunks)
    parts = parts.in_smaller_chunks(max(times, 1))
    queue = _Queue(topology, parts, rounds)
    start = parts.low[parts.path]
    sends: list[tuple[Int64Array, ...]] = []
    while queue.left:
        context().report("steps", parts.total - queue.left, parts.total)
        row, before, taken = queue.advance()
        low = start[row] + before
        sends.append((np.full(len(row), len(sends)), row, low, low + taken))
    return exchange_of(parts, *map(np.concatenate, zip(*sends, strict=True)))


@dataclass(frozen=True, eq=False)
class _HopLimits:
    """What groups of hops (a link's, or those out of or into a capped host) may carry in a step.

    Parameters
    ----------
    order : array of int64
        Hops of all groups, by group, and those first that go first.
    starts : array of int64
        Where groups begin in `order`.
    capacity : array of int64, shape (groups,)
        In 1/P of a unit of demand.
    """

    order: Int64Array
    starts: Int64Array
    capacity: Int64Array

    def cut(self, wanted: Int64Array, weight: Int64Array, taken: Int64Array) -> None:
        """Reduce what is wanted at each hop to what fits beside what is taken already."""
        amount = (wanted * weight)[self.order]
        before = np.cumsum(amount) - amount
        sizes = np.diff(np.append(self.starts, len(self.order)))
        left = self.capacity - np.add.reduceat((taken * weight)[self.order], self.starts)
        room = np.repeat(left + before[self.starts], sizes) - before
        fits = np.maximum(room, 0) // weight[self.order]
        wanted[self.order] = np.minimum(wanted[self.order], fits)


class _Queue:
    """Chunks on their way, by hop.

    Parameters
    ----------
    topology : Topology
    parts : RouteRuns
    rounds : int
    """

    def __init__(self, topology: Topology, parts: RouteRuns, rounds: int) -> None:
        self._size = (parts.high - parts.low)[parts.path]
        self._weight = parts.weight[parts.shard[parts.path]]
        self._is_first: BoolArray = parts.hop == 0
        self._sent = np.zeros(len(parts.path), dtype=np.int64)
        amount = self._size * self._weight
        self._limits = _limits(topology, parts, amount, self._weight, rounds)
        links = self._limits[0]
        # a link's even share of a step: what it carries in all, over the rounds
        shares = -(-np.add.reduceat(amount[links.order], links.starts) // rounds)
        self._even = replace(links, capacity=np.maximum(shares, 1))
        self.left = parts.total
        """Chunks times hops still to go."""

    def advance(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """One step: hops that carry something, chunks that each has carried before, and carries now."""
        waiting = np.where(self._is_first, self._size, np.roll(self._sent, 1)) - self._sent
        taken = np.zeros_like(waiting)
        for turn in range(_PASSES if len(self._limits) > 1 else 1):
            wanted = waiting - taken
            # capped hosts first give each link the same part of all that it carries, then what is left over
            first = [self._even] if len(self._limits) > 1 and turn == 0 else []
            for limits in (*first, *self._limits):
                limits.cut(wanted, self._weight, taken)
            taken += wanted
        row = np.flatnonzero(taken)
        assert row.size  # the first in each queue always fits
        before, now = self._sent[row], taken[row]
        self._sent[row] += now
        self.left -= int(now.sum())
        return row, before, now


def _limits(
    topology: Topology, parts: RouteRuns, amount: Int64Array, weight: Int64Array, rounds: int
) -> list[_HopLimits]:
    """Limits of links, and of hosts with an injection cap out and in."""
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
    place = _places(parts)
    result = []
    for load, (group, rates) in zip(loads, groups, strict=True):
        chosen = np.flatnonzero(rates[group] > 0)
        order = chosen[np.lexsort((place[chosen], group[chosen]))]
        members, starts = np.unique(group[order], return_index=True)
        share = slowest / rounds
        # rounded up to whole chunks, so that the last step is no scrap
        capacity = [
            min(-(-share.numerator * int(rates[member]) // share.denominator), int(load[member]))
            for member in members
        ]
        least = np.maximum.reduceat(weight[order], starts)
        result.append(_HopLimits(order, starts, np.maximum(np.array(capacity, dtype=np.int64), least)))
    return result


def _places(parts: RouteRuns) -> Int64Array:
    """Place of each hop in the queue of its link, farthest to go first; so hosts draw on all links alike."""
    last = np.append(parts.path[1:] != parts.path[:-1], True)
    to_go = (parts.hop[last] + 1)[parts.path] - parts.hop
    turn = (parts.target - parts.source)[parts.shard[parts.path]] % parts.n_ranks
    order = np.lexsort((turn, -to_go, parts.link))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = positions_in_runs(parts.link[order])
    return place
