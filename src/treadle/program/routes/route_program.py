"""Routes of an all-to-all to programs: every chunk goes from its source to its target in one send."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int64Array, offsets_of
from treadle.errors import InfeasibleError, ScheduleError
from treadle.program.program import MAX_CHUNKS, Buffer, OperationKind, Program
from treadle.program.steps.exchange_lowering import check_alltoall
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.topologies.topology import Topology

_MAX_WAITS = 2**26


def lower_routes(
    topology: Topology,
    collective: Collective,
    schedule: RouteSchedule | TimedRoutes,
    *,
    channels: int = 1,
    in_place: bool = False,
    merge: bool = True,
) -> Program:
    """Turn routes into a program.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        An all-to-all on `topology`.
    schedule : RouteSchedule or TimedRoutes
        Verified by the caller; what lowering finds missing on its way it refuses.
    channels : int
        Independent streams between two ranks in each layer: a pair's routes are assigned to so many.
    in_place : bool
        Must be False: an all-to-all sends other data than it receives.
    merge : bool
        Chunks of a route that set out in the same round are one message; False: a message each.

    Returns
    -------
    Program
        Its chunks are the largest equal ones whose bounds include those of all messages.

    Raises
    ------
    ScheduleError
        If the schedule does not fit the collective, leaves something out, or a route does not join its ranks.
    InfeasibleError
        If programs cannot express it: in place, too many chunks.

    Notes
    -----
    A send names its whole path, through switches, forwarders and the adapters of other ranks, none of which
    have a part in the program; its channel is layer * channels + number. There is no SCRATCH.

    Order. Without rounds, ranks send by rising shift (target - source) mod N, all to the same shift at a
    time: so few flows meet at a host even where a runtime sends one message after another; nothing waits.
    With rounds, what a rank sends and receives in one waits for all that it sent and received in the one
    before: that keeps to the rounds' limit of flows per host wherever ranks keep pace. Rounds wait for
    earlier ones only, so nothing deadlocks.
    """
    check_alltoall(topology, collective, schedule, channels=channels, in_place=in_place)
    routes = schedule.routes if isinstance(schedule, TimedRoutes) else schedule
    _check_paths(topology, collective, routes)
    if isinstance(schedule, TimedRoutes):
        messages = _by_round(schedule, merge=merge)
    else:
        messages = _at_once(schedule, merge=merge)
    return _assemble(collective, routes, messages, channels)


@dataclass(frozen=True, eq=False)
class _Messages:
    """What is sent, in the order in which it sets out.

    Parameters
    ----------
    path : array of int64, shape (n,)
    number : array of int64, shape (n,)
        Round from 0; without rounds, the shift between the ranks.
    low, high : array of int64, shape (n,)
        First and one past the last of the route's chunks.
    waits : bool
        Rounds follow each other.
    """

    path: Int64Array
    number: Int64Array
    low: Int64Array
    high: Int64Array
    waits: bool


def _check_paths(topology: Topology, collective: Collective, routes: RouteSchedule) -> None:
    """Units of every pair, and the ends and joints of every path."""
    n, ranks = routes.n_ranks, np.array(collective.ranks)
    carried = np.zeros(n * n, dtype=object)
    np.add.at(carried, routes.pair, routes.units.astype(object))
    expected = collective.pair_demands.between.reshape(-1) * routes.n_chunks
    wrong = np.flatnonzero(carried != expected)
    if wrong.size:
        raise ScheduleError(
            f"routes: rank {wrong[0] // n} to rank {wrong[0] % n} carry {carried[wrong[0]]} chunks, "
            f"expected {expected[wrong[0]]}; treadle verify lists every fault"
        )
    links, offset = routes.path_links, routes.path_offset
    if links.size and int(links.max()) >= topology.n_links:
        raise ScheduleError(f"routes: link {links.max()}, expected links from 0 to {topology.n_links - 1}")
    faulty = np.any(routes.hops == 0)
    if not faulty and links.size:
        tails, heads = topology.tails[links], topology.heads[links]
        inner = np.ones(len(links), dtype=np.bool_)
        inner[offset[:-1]] = False
        faulty = (
            np.any(tails[offset[:-1]] != ranks[routes.source])
            or np.any(heads[offset[1:] - 1] != ranks[routes.target])
            or np.any(tails[1:][inner[1:]] != heads[:-1][inner[1:]])
        )
    if faulty:
        raise ScheduleError("routes: some path does not join its ranks; treadle verify lists which")


def _at_once(routes: RouteSchedule, *, merge: bool) -> _Messages:
    """A message for every path (or chunk), to the same shift at a time."""
    shift = (routes.target.astype(np.int64) - routes.source) % routes.n_ranks
    order = np.lexsort((np.arange(routes.n_paths), shift))
    low = np.zeros(routes.n_paths, dtype=np.int64)
    high = routes.units[order]
    if not merge:
        _check_number(int(routes.units.astype(np.float64).sum()))
        order = np.repeat(order, high)
        low = np.arange(len(order)) - np.repeat(np.cumsum(high) - high, high)
        high = low + 1
    return _Messages(order, shift[order] - 1, low, high, waits=False)


def _by_round(schedule: TimedRoutes, *, merge: bool) -> _Messages:
    """The chunks of every path in the order in which they set out, those of one round together."""
    routes = schedule.routes
    path = schedule.path.astype(np.int64)
    if not np.array_equal(np.bincount(path, minlength=routes.n_paths), routes.units):
        raise ScheduleError("rounds: some chunk never sets out, or twice; treadle verify lists which")
    number = np.repeat(np.arange(schedule.n_rounds), np.diff(schedule.round_offset))
    if merge:
        keys, place, count = np.unique(number * routes.n_paths + path, return_index=True, return_counts=True)
        turn = np.argsort(place, kind="stable")
        number, path = np.divmod(keys[turn], routes.n_paths)
        count = count[turn].astype(np.int64)
    else:
        count = np.ones(len(path), dtype=np.int64)
    order = np.argsort(path, kind="stable")  # by path, then by round: where each message's chunks begin
    sent = np.cumsum(count[order]) - count[order]
    starts = np.searchsorted(path[order], path[order])
    low = np.empty_like(count)
    low[order] = sent - sent[starts]
    return _Messages(path, number, low, low + count, waits=True)


def _assemble(collective: Collective, routes: RouteSchedule, messages: _Messages, channels: int) -> Program:
    """Own copies first, then sends and receives in the messages' order."""
    n, total = collective.n_ranks, len(messages.path)
    place = _place(collective, routes, messages)
    path, offset = messages.path, place.shard_offset
    nth = np.arange(routes.n_paths) - np.searchsorted(routes.pair, routes.pair)
    channel = routes.layer[path].astype(np.int64) * channels + nth[path] % channels
    source, target = routes.source[path].astype(np.int64), routes.target[path].astype(np.int64)
    own = np.flatnonzero(np.diff(offset)[:: n + 1])
    kept = own * (n + 1)
    rank = np.concatenate([own, source, target])
    turn = np.concatenate([np.full(len(own), -1), np.arange(total), np.arange(total)])
    order = np.lexsort((turn, rank))

    def column(
        copied: int | Int64Array, at_source: int | Int64Array, at_target: int | Int64Array
    ) -> Int64Array:
        parts = zip((copied, at_source, at_target), (len(own), total, total), strict=True)
        whole: Int64Array = np.concatenate([np.broadcast_to(value, number) for value, number in parts])
        return whole[order]

    rounds = column(-1, messages.number, messages.number)
    wait_offset, waits = _waits(rank[order], rounds) if messages.waits else _no_waits(len(order))
    kinds = (int(OperationKind.COPY), int(OperationKind.SEND), int(OperationKind.RECEIVE))
    return Program(
        kind=CollectiveKind.ALLTOALL,
        nodes=np.array(collective.ranks, dtype=np.int32),
        root=-1,
        n_chunks=place.n_chunks,
        shard_offset=offset,
        in_place=False,
        operation_offset=np.searchsorted(rank[order], np.arange(n + 1)).astype(np.int64),
        operation_kind=column(*kinds).astype(np.int32),
        peer=column(-1, target, source).astype(np.int32),
        channel=column(0, channel, channel).astype(np.int32),
        step=np.maximum(rounds, 0).astype(np.int32),
        source=np.full(len(order), Buffer.INPUT, dtype=np.int32),
        target=np.full(len(order), Buffer.OUTPUT, dtype=np.int32),
        path=column(-1, path, -1).astype(np.int32),
        first=column(offset[kept], place.first, place.first),
        count=column(offset[kept + 1] - offset[kept], place.count, place.count),
        wait_offset=wait_offset,
        waits=waits,
        path_offset=routes.path_offset,
        path_links=routes.path_links,
    )


@dataclass(frozen=True, eq=False)
class _Buffers:
    """Where the data of messages lies, in chunks of the program.

    Parameters
    ----------
    n_chunks : int
        Of the program: those of the largest per-rank buffer.
    shard_offset : array of int64, shape (N * N + 1,)
    first, count : arrays of int64, shape (n,)
    """

    n_chunks: int
    shard_offset: Int64Array
    first: Int64Array
    count: Int64Array


def _place(collective: Collective, routes: RouteSchedule, messages: _Messages) -> _Buffers:
    """A pair's paths share its data in their order; chunks are as large as all bounds allow."""
    weights = collective.pair_demands.matrix.reshape(-1)
    ahead = np.cumsum(routes.units) - routes.units  # chunks of the paths before, all pairs together
    begin = ahead - ahead[np.searchsorted(routes.pair, routes.pair)]
    low, high = begin[messages.path] + messages.low, begin[messages.path] + messages.high
    bounds = np.unique(np.concatenate([np.unique(weights) * routes.n_chunks, low, high]))
    unit = int(np.gcd.reduce(bounds))
    _check_number(sum(weights.tolist()) * routes.n_chunks // unit)
    offset = offsets_of(weights * routes.n_chunks // unit)
    return _Buffers(
        n_chunks=collective.pair_demands.buffer_units * routes.n_chunks // unit,
        shard_offset=offset,
        first=offset[routes.pair[messages.path]] + low // unit,
        count=(high - low) // unit,
    )


def _check_number(chunks: int) -> None:
    if chunks > MAX_CHUNKS:
        raise InfeasibleError(
            f"the routes' weights need {chunks} equal chunks of the data, programs have up to {MAX_CHUNKS}; "
            f"use routes with fewer chunks (--chunks)"
        )


def _no_waits(total: int) -> tuple[Int64Array, Int64Array]:
    return np.zeros(total + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)


def _waits(rank: Int64Array, rounds: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Each operation waits for those of its rank's last round before; copies (-1) count as none."""
    total = len(rank)
    fresh = np.ones(total, dtype=np.bool_)
    fresh[1:] = (rank[1:] != rank[:-1]) | (rounds[1:] != rounds[:-1])
    starts = np.flatnonzero(fresh)
    ends = np.append(starts[1:], total)
    group = np.cumsum(fresh) - 1
    before = np.maximum(group - 1, 0)
    follows = (group > 0) & (rank[starts[before]] == rank) & (rounds[starts[before]] >= 0)
    awaited = np.where(follows, ends[before] - starts[before], 0)
    offset = offsets_of(awaited)
    if offset[-1] > _MAX_WAITS:
        raise InfeasibleError(
            f"rounds of so many flows need {offset[-1]} waits, programs have up to {_MAX_WAITS}; "
            f"allow fewer flows per host (--max-flows)"
        )
    waits = np.arange(offset[-1]) - np.repeat(offset[:-1] - starts[before], awaited)
    return offset, waits.astype(np.int64)
