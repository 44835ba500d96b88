"""Rounds for the chunks of a route schedule: no link carries two in a round, hosts have few flows at a
time."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array, frozen, offsets_of, sums_of
from treadle.context import context
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.topologies.topology import Topology

_MOST_CHUNKS = 2**22
"""Most chunks that are placed."""

_LIKE_ROUNDS = 256
"""Number of rounds' chunks left from which a round is repeated."""


def timed_routes(topology: Topology, schedule: RouteSchedule, *, max_flows: int) -> TimedRoutes:
    """Let chunks set out in rounds, at most `max_flows` out of and into a host at a time.

    Parameters
    ----------
    topology : Topology
        Links count as equal: each carries one chunk a round.
    schedule : RouteSchedule
        Checked by the caller.
    max_flows : int
        Simultaneous flows that a host can send, and receive, without losing rate.

    Raises
    ------
    ScheduleError
        If `max_flows` is not positive, or the chunks are more than 2**22.
    TimeLimitError
        If the deadline passed.

    Notes
    -----
    Greedy list scheduling (Graham, 1966): in each round, chunks in the order of the work left on the fullest
    link (or host) of their path, long paths first, join if nothing that they need is taken; a round whose
    paths have very many chunks left is repeated. Injection
    control is named as ongoing work in section 5.5 of the all-to-all paper.
    """
    if max_flows < 1:
        raise ScheduleError(f"rounds: at most {max_flows} flows per host, expected at least 1")
    total = int(schedule.units.sum())
    if total > _MOST_CHUNKS:
        raise ScheduleError(f"rounds: {total} chunks, at most {_MOST_CHUNKS} can be placed; use fewer a pair")
    needs, capacity = _needs(topology, schedule, max_flows)
    left = schedule.units.copy()
    work = sums_of(len(capacity), needs.ravel(), np.repeat(left, needs.shape[1]))
    hops = schedule.hops
    turn = (schedule.target - schedule.source) % schedule.n_ranks  # ties: all hosts to the same shift
    rounds: list[Int64Array] = []
    sizes: list[int] = []
    while left.any():
        context().report("rounds", total - int(left.sum()), total)
        waiting = np.flatnonzero(left)
        urgency = (work[needs[waiting]] / capacity[needs[waiting]]).max(axis=1)
        order = waiting[np.lexsort((turn[waiting], -hops[waiting], -urgency))]
        taken = _fill_round(needs[order], capacity)
        paths = order[taken]
        times = max(1, int(left[paths].min()) // _LIKE_ROUNDS)
        left[paths] -= times
        np.subtract.at(work, needs[paths].ravel(), times)
        rounds.append(np.tile(paths, times))
        sizes += [len(paths)] * times
    offset = offsets_of(sizes)
    return TimedRoutes(schedule, frozen(offset, np.int64), frozen(np.concatenate(rounds), np.int32))


def _needs(topology: Topology, schedule: RouteSchedule, max_flows: int) -> tuple[Int64Array, Int64Array]:
    """Resources of a chunk of each path (links, slots at both hosts, padding), and capacities."""
    m, n = topology.n_links, schedule.n_ranks
    nothing = m + 2 * n
    hops = schedule.hops
    needs: Int64Array = np.full((schedule.n_paths, int(hops.max(initial=0)) + 2), nothing, dtype=np.int64)
    owner = np.repeat(np.arange(schedule.n_paths), hops)
    place = np.arange(len(schedule.path_links)) - np.repeat(schedule.path_offset[:-1], hops)
    needs[owner, place] = schedule.path_links
    needs[:, -2] = m + schedule.source
    needs[:, -1] = m + n + schedule.target
    capacity = np.concatenate([np.ones(m), np.full(2 * n, max_flows), [2**40]]).astype(np.int64)
    return needs, capacity


def _fill_round(needs: Int64Array, capacity: Int64Array) -> Int64Array:
    """Choose compatible rows in order: entire blocks are tested together, then row by row."""
    room = capacity.tolist()
    taken = []
    blocked = np.zeros(len(capacity), dtype=np.bool_)
    for first in range(0, len(needs), 256):
        block = needs[first : first + 256]
        for row in np.flatnonzero(~blocked[block].any(axis=1)).tolist():
            wanted = block[row].tolist()
            if all(room[need] > 0 for need in wanted):
                for need in wanted:
                    room[need] -= 1
                    if not room[need]:
                        blocked[need] = True
                taken.append(first + row)
    return np.array(taken, dtype=np.int64)
