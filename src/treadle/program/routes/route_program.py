"""Lowering of the routes of an all-to-all: a send for each chunk, and one for every memory that it passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.arrays import Int64Array, mask_of, offsets_of, positions_of, ranges_of, sums_of
from treadle.errors import InfeasibleError, ScheduleError
from treadle.program.hazards import pair_lists
from treadle.program.program import MAX_CHUNKS, Buffer, OperationKind, Program
from treadle.program.schedule_fit import check_links
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
    """Lower routes to a program.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        An all-to-all on `topology`.
    schedule : RouteSchedule or TimedRoutes
        Verified by the caller; faults that lowering notices are errors.
    channels : int
        Number of independent streams between two ranks in each layer; routes are assigned to them in turn.
    in_place : bool
        Must be False: an all-to-all sends and receives different data.
    merge : bool
        Send the chunks of a route in one round as one message; False: one message each.

    Returns
    -------
    Program
        Its chunks are the largest equal ones whose bounds include those of all messages.

    Raises
    ------
    ScheduleError
        If the schedule does not fit the collective, is incomplete, or a route does not join its ranks.
    InfeasibleError
        If programs cannot express it: in place, too many chunks.

    Notes
    -----
    A send names its complete path, through switches, forwarders and the adapters of other ranks, which have
    no operations; its channel is layer * channels + number. If a path passes the memory of a host
    (`forwards_in_host`), that rank receives the data in SCRATCH and sends them again.

    Order. Without rounds, ranks send by rising shift (target - source) mod N, all to the same shift at a
    time: so few flows meet at a host even if a runtime sends one message after another; nothing waits.
    With rounds, the sends and receives of a rank in a round wait for all those of the round before: that
    respects the limit of flows per host as long as ranks keep pace. Rounds only wait for earlier ones, so
    they cannot deadlock.
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
    """Messages in the order in which they are sent; arrays of shape (n,)."""

    path: Int64Array
    number: Int64Array
    """Round from 0; without rounds, the shift between the ranks."""
    low: Int64Array
    """First chunk of the route."""
    high: Int64Array
    """One past the last chunk of the route."""
    waits: bool
    """Whether rounds follow each other."""


def _check_paths(topology: Topology, collective: Collective, routes: RouteSchedule) -> None:
    """Check the units of every pair, and the ends and joints of every path."""
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
    check_links("routes", topology, links)
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
    """Return a message for every path (or chunk), by shift."""
    shift = (routes.target.astype(np.int64) - routes.source) % routes.n_ranks
    order = np.lexsort((np.arange(routes.n_paths), shift))
    low = np.zeros(routes.n_paths, dtype=np.int64)
    high = routes.units[order]
    if not merge:
        _check_number(int(routes.units.astype(np.float64).sum()))
        path, low = ranges_of(low, high)
        order, high = order[path], low + 1
    return _Messages(order, shift[order] - 1, low, high, waits=False)


def _by_round(schedule: TimedRoutes, *, merge: bool) -> _Messages:
    """Return the chunks of every path in the order in which they are sent, those of one round together."""
    routes = schedule.routes
    path = schedule.path.astype(np.int64)
    if not np.array_equal(np.bincount(path, minlength=routes.n_paths), routes.units):
        raise ScheduleError("rounds: some chunk is not sent exactly once; treadle verify lists which")
    number = np.repeat(np.arange(schedule.n_rounds), np.diff(schedule.round_offset))
    if merge:
        keys, place, count = np.unique(number * routes.n_paths + path, return_index=True, return_counts=True)
        turn = np.argsort(place, kind="stable")
        number, path = np.divmod(keys[turn], routes.n_paths)
        count = count[turn].astype(np.int64)
    else:
        count = np.ones(len(path), dtype=np.int64)
    order = np.argsort(path, kind="stable")  # by path, then by round
    sent = np.cumsum(count[order]) - count[order]
    starts = np.searchsorted(path[order], path[order])
    low = np.empty_like(count)
    low[order] = sent - sent[starts]
    return _Messages(path, number, low, low + count, waits=True)


@dataclass(frozen=True, eq=False)
class _Segments:
    """Parts of paths between the memories that they pass, in the order of paths."""

    offset: Int64Array
    """Segment i is links offset[i] to offset[i + 1] - 1 of all paths."""
    first: Int64Array
    """First segment of each path, shape (paths + 1,)."""
    source: Int64Array
    """Rank at the beginning of each segment."""
    target: Int64Array


def _segments(topology: Topology, collective: Collective, routes: RouteSchedule) -> _Segments:
    """Cut paths where data pass a host: its rank, which must exist, receives them and sends them again."""
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
    """Order own copies first, then sends and receives by messages: all first segments, then others."""
    n = collective.n_ranks
    n_chunks, offset, first, count = _place(collective, routes, messages)
    counts = np.diff(segments.first)[messages.path]
    message, nth = ranges_of(np.zeros_like(counts), counts)
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
    # A send out of scratch waits for the receive of its data.
    by_segment = positions_of((len(messages.path), int(counts.max(initial=1))), (message, nth))
    before = by_segment[message, nth - 1]
    received = np.where(nth > 0, positions_of(len(order), order)[len(own) + total + before], -1)
    awaited = column(-1, received, -1)
    waiting = np.flatnonzero(awaited >= 0)
    pairs = [(waiting, awaited[waiting])]
    if messages.waits:
        pairs.append(_round_waits(rank[order], rounds))
    waiting, awaited = (np.concatenate(side) for side in zip(*pairs, strict=True))
    wait_offset, waits = pair_lists(waiting, awaited, len(order))
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
    """Return the chunks of the largest per-rank buffer, those before each pair, and those of each message.

    The paths of a pair share its data in their order; chunks are as large as all bounds allow.
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


def _round_waits(rank: Int64Array, rounds: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return pairs of an operation and one of the last round of its rank before; copies have round -1."""
    total = len(rank)
    is_start = np.ones(total, dtype=np.bool_)
    is_start[1:] = (rank[1:] != rank[:-1]) | (rounds[1:] != rounds[:-1])
    starts = np.flatnonzero(is_start)
    ends = np.append(starts[1:], total)
    group = np.cumsum(is_start) - 1
    before = np.maximum(group - 1, 0)
    follows = (group > 0) & (rank[starts[before]] == rank) & (rounds[starts[before]] >= 0)
    awaited = np.where(follows, ends[before] - starts[before], 0)
    n_waits = int(awaited.sum())
    if n_waits > _MAX_WAITS:
        raise InfeasibleError(
            f"the flows of the rounds need {n_waits} waits, programs have up to {_MAX_WAITS}; allow fewer "
            f"flows per host (--max-flows)"
        )
    return ranges_of(starts[before], awaited)
