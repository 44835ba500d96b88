"""Steps of an all-to-all from weighted routes: hop by hop, or pipelined at nearly the routes' steady rate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm

import numpy as np

from treadle.arrays import BoolArray, Int64Array, frozen
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective
from treadle.schedules.exchange import ExchangeSchedule
from treadle.schedules.forest import Direction
from treadle.schedules.routes import RouteSchedule
from treadle.schedules.steps import steps_from_sends
from treadle.synthesis.watch import UNWATCHED, Watch
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
    >>> from treadle.synthesis.alltoall.shortest_paths import split_over_shortest_paths
    >>> from treadle.topologies.graphs import hypercube
    >>> cube = hypercube(3)
    >>> collective = on_all_ranks(cube, CollectiveKind.ALLTOALL)
    >>> hop_synchronous(cube, collective, split_over_shortest_paths(cube, collective))
    <ExchangeSchedule: 8 ranks, 56 shards of 6 chunks, 3 steps, 240 sends>
    """
    parts = _parts(topology, collective, routes, max_chunks)
    return _schedule(
        parts, parts.hop, np.arange(len(parts.hop)), parts.low[parts.path], parts.high[parts.path]
    )


def pipelined(
    topology: Topology,
    collective: Collective,
    routes: RouteSchedule,
    *,
    rounds: int,
    max_chunks: int = MAX_CHUNKS,
    watch: Watch = UNWATCHED,
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
    watch : Watch

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
    parts = _finer(_parts(topology, collective, routes, max_chunks), rounds, max_chunks)
    queue = _Queue(topology, parts, rounds)
    rows: list[Int64Array] = []
    steps: list[Int64Array] = []
    lows: list[Int64Array] = []
    highs: list[Int64Array] = []
    start = parts.low[parts.path]
    step = 0
    while queue.left:
        watch.beat("steps", parts.total - queue.left, parts.total)
        row, before, taken = queue.advance()
        rows.append(row)
        lows.append(start[row] + before)
        highs.append(start[row] + before + taken)
        steps.append(np.full(len(row), step))
        step += 1
    return _schedule(parts, *(np.concatenate(column) for column in (steps, rows, lows, highs)))


@dataclass(frozen=True, eq=False)
class _Parts:
    """Runs of chunks with their routes; arrays of paths, and of hops in the order of paths.

    Parameters
    ----------
    n_ranks, n_chunks : int
    source, target, weight : arrays of int64, shape (S,)
        Of each shard.
    shard, low, high : arrays of int64, shape (k,)
        Of each path.
    path, hop, link : arrays of int64, shape (hops,)
    """

    n_ranks: int
    n_chunks: int
    source: Int64Array
    target: Int64Array
    weight: Int64Array
    shard: Int64Array
    low: Int64Array
    high: Int64Array
    path: Int64Array
    hop: Int64Array
    link: Int64Array

    @property
    def total(self) -> int:
        """Chunks times hops."""
        return int((self.high - self.low)[self.path].sum())


def _parts(topology: Topology, collective: Collective, routes: RouteSchedule, max_chunks: int) -> _Parts:
    """The routes' shares as runs of chunks."""
    if max_chunks < 1:
        raise ScheduleError(f"chunks: expected at least 1 per shard, found {max_chunks}")
    demands = collective.pair_demands.between
    source, target = np.nonzero(demands)
    weight = demands[source, target]
    pairs, shard = np.unique(routes.pair, return_inverse=True)
    carried = np.bincount(shard, weights=routes.units, minlength=len(pairs))
    if (
        routes.n_ranks != collective.n_ranks
        or not np.array_equal(pairs, source * routes.n_ranks + target)
        or not np.array_equal(carried, weight * routes.n_chunks)
    ):
        raise ScheduleError("the routes carry another all-to-all; expected just the demands of this one")
    _check_links(topology, routes)
    n_chunks, ends = _chunk_ends(routes, shard, weight, max_chunks)
    first = np.append(True, shard[1:] != shard[:-1])
    low = np.where(first, 0, np.append(0, ends[:-1]))
    kept = np.flatnonzero(ends > low)
    hops = routes.hops
    path = np.repeat(np.arange(len(kept)), hops[kept])
    hop = np.arange(len(path)) - np.repeat(np.cumsum(hops[kept]) - hops[kept], hops[kept])
    return _Parts(
        n_ranks=routes.n_ranks,
        n_chunks=n_chunks,
        source=source,
        target=target,
        weight=weight,
        shard=shard[kept],
        low=low[kept],
        high=ends[kept],
        path=path,
        hop=hop,
        link=routes.path_links[np.repeat(routes.path_offset[kept], hops[kept]) + hop].astype(np.int64),
    )


def _finer(parts: _Parts, rounds: int, max_chunks: int) -> _Parts:
    """The same runs in smaller chunks where a step has room for few of them."""
    busiest = int(np.bincount(parts.link, weights=(parts.high - parts.low)[parts.path]).max())
    times = min(-(-_CHUNKS_PER_STEP * rounds // busiest), max_chunks // parts.n_chunks)
    if times <= 1:
        return parts
    return replace(parts, n_chunks=parts.n_chunks * times, low=parts.low * times, high=parts.high * times)


def _check_links(topology: Topology, routes: RouteSchedule) -> None:
    links = np.unique(routes.path_links)
    if links.size and links[-1] >= topology.n_links:
        raise ScheduleError(
            f"routes: link {links[-1]}, {topology.name} has links 0 to {topology.n_links - 1}"
        )
    holds = topology.is_compute[topology.tails[links]] & topology.is_compute[topology.heads[links]]
    for link in links[~holds][:1]:
        raise ScheduleError(
            f"the routes use link {topology.link_name(int(link))}: steps store and forward, and a switch "
            f"cannot store; expected a fabric of compute nodes, or use routes as they are"
        )


def _chunk_ends(
    routes: RouteSchedule, shard: Int64Array, weight: Int64Array, max_chunks: int
) -> tuple[int, Int64Array]:
    """Chunks per shard, and where each path's run of them ends."""
    units = np.cumsum(routes.units)
    starts = np.searchsorted(shard, np.arange(len(weight)))
    until = units - (units - routes.units)[starts][shard]
    whole = (weight * routes.n_chunks)[shard]
    n_chunks = 1
    for part in np.unique(whole // np.gcd(until, whole)).tolist():
        n_chunks = min(lcm(n_chunks, part), max_chunks + 1)
    if n_chunks <= max_chunks:
        return n_chunks, until // np.gcd(until, whole) * (n_chunks // (whole // np.gcd(until, whole)))
    return max_chunks, np.rint(until * (max_chunks / whole)).astype(np.int64)


def _schedule(
    parts: _Parts, step: Int64Array, row: Int64Array, low: Int64Array, high: Int64Array
) -> ExchangeSchedule:
    """Sends of chunks [low, high) at hops `row`; adjacent runs that go the same way together are one send."""
    shard, link = parts.shard[parts.path[row]], parts.link[row]
    order = np.lexsort((low, link, shard, step))
    step, shard, link, low, high = (column[order] for column in (step, shard, link, low, high))
    joined = low[1:] == high[:-1]
    for column in (step, shard, link):
        joined &= column[1:] == column[:-1]
    begins = np.flatnonzero(np.append(True, ~joined))
    high = high[np.append(begins[1:] - 1, len(high) - 1)]
    sends = steps_from_sends(
        Direction.BROADCAST,
        parts.n_ranks,
        parts.n_chunks,
        [shard[begins], link[begins], step[begins], low[begins], high],
        homes=parts.source.tolist(),
    )
    return ExchangeSchedule(sends, frozen(parts.target, np.int32))


@dataclass(frozen=True, eq=False)
class _Limits:
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
    parts : _Parts
    rounds : int
    """

    def __init__(self, topology: Topology, parts: _Parts, rounds: int) -> None:
        self._size = (parts.high - parts.low)[parts.path]
        self._weight = parts.weight[parts.shard[parts.path]]
        self._is_first: BoolArray = parts.hop == 0
        self._sent = np.zeros(len(parts.path), dtype=np.int64)
        amount = self._size * self._weight
        self._limits = _limits(topology, parts, amount, self._weight, rounds)
        links = self._limits[0]
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
    topology: Topology, parts: _Parts, amount: Int64Array, weight: Int64Array, rounds: int
) -> list[_Limits]:
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
    for group, rates in groups:
        chosen = np.flatnonzero(rates[group] > 0)
        order = chosen[np.lexsort((place[chosen], group[chosen]))]
        members, starts = np.unique(group[order], return_index=True)
        share = slowest / rounds
        # rounded up to whole chunks, so that the last step is no scrap
        capacity = [-(-share.numerator * int(rates[member]) // share.denominator) for member in members]
        least = np.maximum.reduceat(weight[order], starts)
        result.append(_Limits(order, starts, np.maximum(np.array(capacity, dtype=np.int64), least)))
    return result


def _places(parts: _Parts) -> Int64Array:
    """Place of each hop in the queue of its link, farthest to go first; so hosts draw on all links alike."""
    last = np.append(parts.path[1:] != parts.path[:-1], True)
    to_go = (parts.hop[last] + 1)[parts.path] - parts.hop
    turn = (parts.target - parts.source)[parts.shard[parts.path]] % parts.n_ranks
    order = np.lexsort((turn, -to_go, parts.link))
    link = parts.link[order]
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order)) - np.searchsorted(link, link)
    return place
