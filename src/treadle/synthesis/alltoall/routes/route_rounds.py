"""Rounds for the chunks of a route schedule: at most one per link and round, and few flows per host."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array, frozen, offsets_of, sums_of
from treadle.context import context
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.synthesis.runs import within
from treadle.topologies.topology import Topology

_MOST_CHUNKS = 2**22
"""Most chunks that are placed."""

_LIKE_ROUNDS = 256
"""A round is repeated while its paths have at least this many times its chunks left."""


def timed_routes(topology: Topology, schedule: RouteSchedule, *, max_flows: int) -> TimedRoutes:
    """Send chunks in rounds, at most `max_flows` at a time out of and into a host.

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
    link (or host) of their path, long paths first, are added if all that they need is free. A round whose
    paths have very many chunks left is repeated. Section 5.5 of the all-to-all paper names injection control
    as ongoing work.
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
    hops, longest = schedule.hops, int(schedule.hops.max(initial=0))
    needs: Int64Array = np.full((schedule.n_paths, longest + 2), m + 2 * n, dtype=np.int64)
    needs[np.repeat(np.arange(schedule.n_paths), hops), within(hops)] = schedule.path_links
    needs[:, -2:] = np.column_stack([m + schedule.source, m + n + schedule.target])
    capacity = np.concatenate([np.ones(m), np.full(2 * n, max_flows), [2**40]]).astype(np.int64)
    return needs, capacity


def _fill_round(needs: Int64Array, capacity: Int64Array) -> Int64Array:
    """Choose compatible rows in order: entire blocks are tested together, then row by row."""
    free = capacity.tolist()
    taken = []
    blocked = np.zeros(len(capacity), dtype=np.bool_)
    for first in range(0, len(needs), 256):
        block = needs[first : first + 256]
        for row in np.flatnonzero(~blocked[block].any(axis=1)).tolist():
            wanted = block[row].tolist()
            if all(free[need] > 0 for need in wanted):
                for need in wanted:
                    free[need] -= 1
                    if not free[need]:
                        blocked[need] = True
                taken.append(first + row)
    return np.array(taken, dtype=np.int64)
