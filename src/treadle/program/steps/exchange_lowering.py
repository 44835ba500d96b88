"""Lowering of the steps of an all-to-all: every chunk goes from rank to rank, and waits for no step."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import numpy as np

from treadle.arrays import Int64Array, offsets_of, positions_of
from treadle.errors import InfeasibleError, ScheduleError
from treadle.program.program import MAX_CHUNKS, Program
from treadle.program.schedule_fit import check_fit, check_links
from treadle.program.steps.step_chunks import Holdings, Moves, moves_of
from treadle.program.steps.step_program import Frame, assemble
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.steps import Steps
from treadle.topologies.topology import Topology


def check_alltoall(
    topology: Topology,
    collective: Collective,
    schedule: ExchangeSchedule | RouteSchedule | TimedRoutes,
    *,
    channels: int,
    in_place: bool,
) -> None:
    """Check that a program of an all-to-all can be made of a schedule.

    Raises
    ------
    ScheduleError
        If the schedule does not fit the collective, or `channels` is less than 1.
    InfeasibleError
        If `in_place`.
    """
    check_fit(topology, collective, CollectiveKind.ALLTOALL, schedule.n_ranks, channels)
    if in_place:
        raise InfeasibleError(
            "an all-to-all sends and receives different data, so input and output cannot be one memory"
        )


def lower_exchange(
    topology: Topology,
    collective: Collective,
    schedule: ExchangeSchedule,
    *,
    channels: int = 1,
    in_place: bool = False,
    merge: bool = True,
) -> Program:
    """Lower the steps of an all-to-all to a program.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        An all-to-all on `topology`.
    schedule : ExchangeSchedule
        Verified by the caller; missing sends that lowering notices are errors.
    channels : int
        Number of independent streams of each link; the shards are assigned to them in turn.
    in_place : bool
        Must be False: an all-to-all sends and receives different data.
    merge : bool
        Send adjacent chunks of different sends as one message if step, link, channel and buffers agree.

    Returns
    -------
    Program
        Its chunks are the largest equal ones whose bounds include those of all sends.

    Raises
    ------
    ScheduleError
        If the schedule does not fit the collective or is incomplete.
    InfeasibleError
        If programs cannot express it: in place, sends that end at switches, too many chunks, a chunk that
        arrives at a rank twice.

    Notes
    -----
    A rank forwards out of SCRATCH; its own data go from INPUT and arrive in OUTPUT. A send waits for the
    receives of its chunks; nothing waits for a step to end. Forwarders have no operations: data from rank to
    rank through them are one send, whose path names them.
    """
    check_alltoall(topology, collective, schedule, channels=channels, in_place=in_place)
    frame, first, past = _cut(collective, schedule)
    sends = schedule.sends
    check_links("exchange", topology, sends.crossed)
    # Forwarders have the numbers after the ranks.
    number = positions_of(topology.n_nodes, [*collective.ranks, *collective.forwarders])
    moves = moves_of(topology, sends, number, first, past - first, sends.shard, channels)
    _check_chains(moves, frame)
    moves, paths = _through_forwarders(sends, moves, collective.n_ranks)
    return assemble(frame, [moves], merge=merge, longer_paths=paths)


def _cut(collective: Collective, schedule: ExchangeSchedule) -> tuple[Frame, Int64Array, Int64Array]:
    """Return the frame of the runs, and the first and one past the last run that each send carries."""
    n, sends, demands = collective.n_ranks, schedule.sends, collective.pair_demands
    pairs = schedule.sources.astype(np.int64) * n + schedule.targets
    demanded = np.flatnonzero(demands.between)
    if not np.array_equal(np.sort(pairs), demanded):
        raise ScheduleError(
            "exchange: expected one shard for each pair of ranks with a demand, and no others"
        )
    stride = schedule.n_chunks + 1
    low, high = (pairs[sends.shard] * stride + ends for ends in (sends.low, sends.high))
    cuts = np.unique(np.concatenate([demanded * stride, demanded * stride + schedule.n_chunks, low, high]))
    pair, cut = np.divmod(cuts, stride)
    weights = demands.matrix.reshape(-1)
    fine = weights[pair] * cut  # in 1/P of a unit of demand
    unit = gcd(*(np.unique(weights) * schedule.n_chunks).tolist(), *np.unique(fine).tolist())
    total = int(weights.sum()) * schedule.n_chunks // unit
    if total > MAX_CHUNKS:
        raise InfeasibleError(
            f"the sends' bounds need {total} equal chunks of the data, programs have up to {MAX_CHUNKS}; use "
            f"a schedule with fewer chunks (--chunks)"
        )
    offset = offsets_of(weights * schedule.n_chunks // unit)
    begins = np.flatnonzero(cut < schedule.n_chunks)  # the end of a shard begins no run
    number = np.searchsorted(begins, np.arange(len(cuts)))
    position = offset[pair] + fine // unit
    frame = Frame(
        collective,
        Holdings(n, pair[begins] // n),
        n_chunks=demands.buffer_units * schedule.n_chunks // unit,
        shard_offset=offset,
        bounds=np.stack([position[begins], position[begins + 1]]),
        in_place=False,
        targets=pair[begins] % n,
    )
    return frame, number[np.searchsorted(cuts, low)], number[np.searchsorted(cuts, high)]


def _check_chains(moves: Moves, frame: Frame) -> None:
    """Check that every run goes from its source from rank to rank to its target, to no rank twice."""
    source = frame.holdings.home
    row = moves.part(np.lexsort((moves.step, moves.piece)))
    starts = np.append(np.ones(min(1, len(row)), dtype=np.bool_), row.piece[1:] != row.piece[:-1])
    first = np.flatnonzero(starts)
    if not np.array_equal(row.piece[first], np.arange(len(source))):
        raise ScheduleError("exchange: some chunk never leaves its source; treadle verify lists which")
    later = np.flatnonzero(~starts)
    last = np.append(first[1:], len(row)) - 1
    if (
        np.any(row.sender[first] != source)
        or np.any(row.sender[later] != row.receiver[later - 1])
        or np.any(row.step[later] <= row.step[later - 1])
        or np.any(row.receiver[last] != frame.targets)
    ):
        raise ScheduleError(
            "exchange: some chunk is sent before it has arrived, or does not reach its target; treadle "
            "verify lists which"
        )
    n_ranks = int(max(row.sender.max(), row.receiver.max())) + 1
    visits = np.concatenate([row.piece * n_ranks + row.receiver, row.piece[first] * n_ranks + source])
    if len(np.unique(visits)) < len(visits):
        raise InfeasibleError(
            "exchange: some chunk arrives at a rank twice, but programs can store it once; expected routes "
            "without cycles"
        )


def _through_forwarders(sends: Steps, moves: Moves, n_ranks: int) -> tuple[Moves, list[tuple[int, ...]]]:
    """Return moves from rank to rank, in the step of their first link, and the paths through forwarders.

    Only ranks have memory for chunks. A chunk that a forwarder would store for some steps is sent when it
    would arrive there.
    """
    ways = [tuple(sends.path(number).tolist()) for number in range(sends.n_paths)]
    if len(moves) == 0 or int(moves.receiver.max()) < n_ranks:
        return (replace(moves, path=-1 - moves.path), ways) if ways else (moves, [])
    row = moves.part(np.lexsort((moves.step, moves.piece)))
    starts = np.flatnonzero(row.sender < n_ranks)
    ends = np.append(starts[1:], len(row))
    path, numbers = row.path[starts], dict[tuple[int, ...], int]()
    for move in np.flatnonzero((ends - starts > 1) | bool(ways)).tolist():
        hops = row.path[starts[move] : ends[move]].tolist()
        links = tuple(link for hop in hops for link in ways[hop]) if ways else tuple(hops)
        path[move] = -1 - numbers.setdefault(links, len(numbers))
    found = replace(row.part(starts), receiver=row.receiver[ends - 1], path=path)
    return found.part(np.argsort(found.step, kind="stable")), list(numbers)
