"""Steps of an all-to-all to programs: every chunk goes from hand to hand, and waits for no step."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import numpy as np

from treadle.arrays import Int64Array, offsets_of, positions_of
from treadle.errors import InfeasibleError, ScheduleError
from treadle.program.program import MAX_CHUNKS, Program
from treadle.program.steps.step_chunks import Holdings, Moves, moves_of
from treadle.program.steps.step_program import Frame, assemble
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import Collective, CollectiveKind, check_membership
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
    """Refuse what no program of an all-to-all can be made of.

    Raises
    ------
    ScheduleError
        If the schedule does not fit the collective, or `channels` is less than 1.
    InfeasibleError
        If it is to be in place.
    """
    check_membership(topology, collective)
    if collective.kind is not CollectiveKind.ALLTOALL or schedule.n_ranks != collective.n_ranks:
        raise ScheduleError(
            f"the schedule is for {schedule.kind} of {schedule.n_ranks} ranks, the collective is "
            f"{collective.kind} of {collective.n_ranks}"
        )
    if in_place:
        raise InfeasibleError(
            "an all-to-all sends other data than it receives, so input and output cannot be one memory"
        )
    if channels < 1:
        raise ScheduleError(f"channels: expected at least 1, found {channels}")


def lower_exchange(
    topology: Topology,
    collective: Collective,
    schedule: ExchangeSchedule,
    *,
    channels: int = 1,
    in_place: bool = False,
    merge: bool = True,
) -> Program:
    """Turn the steps of an all-to-all into a program.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        An all-to-all on `topology`.
    schedule : ExchangeSchedule
        Verified by the caller; what lowering finds missing on its way it refuses.
    channels : int
        Independent streams of each link: the shards are assigned to so many in turn.
    in_place : bool
        Must be False: an all-to-all sends other data than it receives.
    merge : bool
        Send adjacent chunks of different sends as one message where step, link, channel and buffers agree.

    Returns
    -------
    Program
        Its chunks are the largest equal ones whose bounds include those of all sends.

    Raises
    ------
    ScheduleError
        If the schedule does not fit the collective or leaves something out.
    InfeasibleError
        If programs cannot express it: in place, sends that end at switches, too many chunks, a chunk that
        comes to a rank twice.

    Notes
    -----
    A rank forwards out of SCRATCH, what is its own goes from INPUT and comes to OUTPUT. A send waits for the
    receives that brought its chunks; nothing waits for a step to end. Forwarders run nothing of their own:
    what goes from rank to rank through them is one send, whose path names them.
    """
    check_alltoall(topology, collective, schedule, channels=channels, in_place=in_place)
    frame, first, past = _cut(collective, schedule)
    sends = schedule.sends
    links = sends.crossed
    if links.size and int(links.max()) >= topology.n_links:
        raise ScheduleError(f"exchange: link {links.max()}, expected links from 0 to {topology.n_links - 1}")
    # forwarders are numbered on from the ranks
    number = positions_of(topology.n_nodes, [*collective.ranks, *collective.forwarders])
    moves = moves_of(topology, sends, number, first, past - first, sends.shard, channels)
    _check_chains(moves, frame)
    moves, paths = _through_forwarders(sends, moves, collective.n_ranks)
    return assemble(frame, [moves], merge=merge, longer_paths=paths)


def _cut(collective: Collective, schedule: ExchangeSchedule) -> tuple[Frame, Int64Array, Int64Array]:
    """The frame of the pieces, and the first and one past the last piece that each send carries."""
    n, sends, demands = collective.n_ranks, schedule.sends, collective.pair_demands
    pairs = schedule.sources.astype(np.int64) * n + schedule.targets
    asked = np.flatnonzero(demands.between)
    if not np.array_equal(np.sort(pairs), asked):
        raise ScheduleError("the schedule's shards are not just the pairs that have a demand, one for each")
    stride = schedule.n_chunks + 1
    low, high = (pairs[sends.shard] * stride + ends for ends in (sends.low, sends.high))
    places = np.unique(np.concatenate([asked * stride, asked * stride + schedule.n_chunks, low, high]))
    pair, cut = np.divmod(places, stride)
    weights = demands.matrix.reshape(-1)
    fine = weights[pair] * cut  # in 1/P of a unit of demand
    unit = gcd(*(np.unique(weights) * schedule.n_chunks).tolist(), *np.unique(fine).tolist())
    if int(weights.sum()) * schedule.n_chunks // unit > MAX_CHUNKS:
        raise InfeasibleError(
            f"the sends' bounds need {int(weights.sum()) * schedule.n_chunks // unit} equal chunks of the "
            f"data, programs have up to {MAX_CHUNKS}; use a schedule with fewer chunks (--chunks)"
        )
    offset = offsets_of(weights * schedule.n_chunks // unit)
    begins = np.flatnonzero(cut < schedule.n_chunks)  # the end of a shard begins no piece
    number = np.searchsorted(begins, np.arange(len(places)))
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
    return frame, number[np.searchsorted(places, low)], number[np.searchsorted(places, high)]


def _check_chains(moves: Moves, frame: Frame) -> None:
    """Every piece must go from its source from hand to hand to its target, to no rank twice."""
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
            "exchange: some chunk is sent before it has come, or does not get to its target; treadle verify "
            "lists which"
        )
    n_ranks = int(max(row.sender.max(), row.receiver.max())) + 1
    visits = np.concatenate([row.piece * n_ranks + row.receiver, row.piece[first] * n_ranks + source])
    if len(np.unique(visits)) < len(visits):
        raise InfeasibleError(
            "exchange: some chunk comes to a rank twice, for which programs have one place only; "
            "expected routes without circles"
        )


def _through_forwarders(sends: Steps, moves: Moves, n_ranks: int) -> tuple[Moves, list[tuple[int, ...]]]:
    """Moves from rank to rank, and the paths of those that pass forwarders; in the step of their first link.

    Only ranks have places for chunks. A chunk that a forwarder would keep for some steps is sent when the
    forwarder would get it.
    """
    ways = [tuple(sends.path(number).tolist()) for number in range(sends.n_paths)]
    if len(moves) == 0 or int(moves.receiver.max()) < n_ranks:
        return (replace(moves, path=-1 - moves.path), ways) if ways else (moves, [])
    row = moves.part(np.lexsort((moves.step, moves.piece)))
    starts = np.flatnonzero(row.sender < n_ranks)
    ends = np.append(starts[1:], len(row))
    path, numbers = row.path[starts], dict[tuple[int, ...], int]()
    for place in np.flatnonzero((ends - starts > 1) | bool(ways)).tolist():
        hops = row.path[starts[place] : ends[place]].tolist()
        links = tuple(link for hop in hops for link in ways[hop]) if ways else tuple(hops)
        path[place] = -1 - numbers.setdefault(links, len(numbers))
    found = replace(row.part(starts), receiver=row.receiver[ends - 1], path=path)
    return found.part(np.argsort(found.step, kind="stable")), list(numbers)
