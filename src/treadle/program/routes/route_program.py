"""Routes of an all-to-all to programs: a send for each chunk, and one for every memory that it passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.arrays import Int64Array, mask_of, offsets_of, positions_of, sums_of
from treadle.errors import InfeasibleError, ScheduleError
from treadle.program.hazards import pair_lists
from treadle.program.program import MAX_CHUNKS, Buffer, OperationKind, Program
from treadle.program.steps.exchange_lowering import check_alltoall
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.host_cards import forwards_in_host

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
    have a part in the program; its channel is layer * channels + number. Where a path passes the memory of a
    host (`forwards_in_host`), that rank receives the data in SCRATCH and sends them again.

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
    return _assemble(collective, routes, messages, _segments(topology, collective, routes), channels)


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
    carried = sums_of(n * n, routes.pair, routes.units.astype(object), dtype=object)
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
        inner = ~mask_of(len(links), offset[:-1])
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


@dataclass(frozen=True, eq=False)
class _Segments:
    """Parts of paths between the memories that they pass, in the order of paths.

    Parameters
    ----------
    offset : array of int64, shape (n + 1,)
        Segment i is links offset[i] to offset[i + 1] - 1 of all paths.
    first : array of int64, shape (paths + 1,)
        Of each path its first segment.
    source, target : array of int64, shape (n,)
        Ranks.
    """

    offset: Int64Array
    first: Int64Array
    source: Int64Array
    target: Int64Array


def _segments(topology: Topology, collective: Collective, routes: RouteSchedule) -> _Segments:
    """Cut paths where data pass a host: its rank receives them and sends them again.

    Raises
    ------
    InfeasibleError
        If such a host is not a rank.
    """
    links = routes.path_links.astype(np.int64)
    starts = mask_of(len(links) + 1, routes.path_offset)
    inner = np.flatnonzero(~starts[1:-1]) + 1
    starts[inner] = forwards_in_host(topology, links[inner - 1], links[inner])
    offset = np.flatnonzero(starts)
    rank_of = positions_of(topology.n_nodes, list(collective.ranks))
    tails, heads = topology.tails[links[offset[:-1]]], topology.heads[links[offset[1:] - 1]]
    for node in tails[rank_of[tails] < 0][:1].tolist():
        raise InfeasibleError(
            f"routes: data pass the memory of {topology.node_names[node]!r}, which is not a rank and runs no "
            "program; solve without --forward"
        )
    return _Segments(offset, np.searchsorted(offset, routes.path_offset), rank_of[tails], rank_of[heads])


def _assemble(
    collective: Collective, routes: RouteSchedule, messages: _Messages, segments: _Segments, channels: int
) -> Program:
    """Own copies first, then sends and receives in the messages' order: all first segments, then others."""
    n = collective.n_ranks
    n_chunks, offset, first, count = _place(collective, routes, messages)
    counts = np.diff(segments.first)[messages.path]
    message = np.repeat(np.arange(len(messages.path)), counts)
    nth = np.arange(len(message)) - np.repeat(np.cumsum(counts) - counts, counts)
    number = messages.number[message] if messages.waits else np.zeros(len(message), dtype=np.int64)
    turns = np.lexsort((message, nth, number))
    message, nth, total = message[turns], nth[turns], len(message)
    path = messages.path[message]
    segment = segments.first[path] + nth
    is_last = nth == counts[message] - 1
    of_pair = np.arange(routes.n_paths) - np.searchsorted(routes.pair, routes.pair)
    channel = routes.layer[path].astype(np.int64) * channels + of_pair[path] % channels
    source, target = segments.source[segment], segments.target[segment]
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

    step = messages.number[message]
    rounds = column(-1, step, step)
    wait_offset, waits = np.zeros(len(order) + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if messages.waits:
        wait_offset, waits = _waits(rank[order], rounds)
    # a send out of scratch waits for what its rank received before
    before = np.full(total, -1, dtype=np.int64)
    by_segment = positions_of((len(messages.path), int(counts.max(initial=1))), (message, nth))
    before[nth > 0] = by_segment[message, nth - 1][nth > 0]
    position = positions_of(len(order), order)
    received = np.where(before >= 0, position[len(own) + total + before], -1)
    awaited = column(-1, received, -1)
    more = np.flatnonzero(awaited >= 0)
    waiting = np.concatenate([np.repeat(np.arange(len(order)), np.diff(wait_offset)), more])
    wait_offset, waits = pair_lists(waiting, np.concatenate([waits, awaited[more]]), len(order))
    given, wanted, stored = int(Buffer.INPUT), int(Buffer.OUTPUT), int(Buffer.SCRATCH)
    first, count = first[message], count[message]
    columns: dict[str, Any] = {
        "operation_kind": column(*map(int, (OperationKind.COPY, OperationKind.SEND, OperationKind.RECEIVE))),
        "peer": column(-1, target, source),
        "channel": column(0, channel, channel),
        "step": np.maximum(rounds, 0),
        "source": column(given, *(np.where(end, given, stored) for end in (nth == 0, is_last))),
        "target": column(wanted, *(np.where(end, wanted, stored) for end in (nth == 0, is_last))),
        "path": column(-1, segment, -1),
        "first": column(offset[kept], first, first),
        "count": column(offset[kept + 1] - offset[kept], count, count),
    }
    return Program(
        kind=CollectiveKind.ALLTOALL,
        nodes=np.array(collective.ranks, dtype=np.int32),
        root=-1,
        n_chunks=n_chunks,
        shard_offset=offset,
        in_place=False,
        operation_offset=np.searchsorted(rank[order], np.arange(n + 1)).astype(np.int64),
        wait_offset=wait_offset,
        waits=waits,
        path_offset=segments.offset,
        path_links=routes.path_links,
        **columns,
    )


def _place(
    collective: Collective, routes: RouteSchedule, messages: _Messages
) -> tuple[int, Int64Array, Int64Array, Int64Array]:
    """Chunks of the largest per-rank buffer, chunks before each pair, first and number of each message.

    A pair's paths share its data in their order; chunks are as large as all bounds allow.
    """
    weights = collective.pair_demands.matrix.reshape(-1)
    ahead = np.cumsum(routes.units) - routes.units  # chunks of the paths before, all pairs together
    begin = ahead - ahead[np.searchsorted(routes.pair, routes.pair)]
    low, high = begin[messages.path] + messages.low, begin[messages.path] + messages.high
    bounds = np.unique(np.concatenate([np.unique(weights) * routes.n_chunks, low, high]))
    unit = int(np.gcd.reduce(bounds))
    _check_number(sum(weights.tolist()) * routes.n_chunks // unit)
    offset = offsets_of(weights * routes.n_chunks // unit)
    n_chunks = collective.pair_demands.buffer_units * routes.n_chunks // unit
    return n_chunks, offset, offset[routes.pair[messages.path]] + low // unit, (high - low) // unit


def _check_number(chunks: int) -> None:
    if chunks > MAX_CHUNKS:
        raise InfeasibleError(
            f"the routes' weights need {chunks} equal chunks of the data, programs have up to {MAX_CHUNKS}; "
            f"use routes with fewer chunks (--chunks)"
        )


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
