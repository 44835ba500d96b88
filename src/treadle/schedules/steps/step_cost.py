"""Costs of a step schedule: exact loads of each step, bandwidth time, and algbw.

Notation of the dissertation, section 3.3.2: T_L = alpha * (number of steps); T_B = sum over the steps of the
time that the most loaded link needs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, repeat

import numpy as np

from treadle.arrays import Int64Array, sums_of
from treadle.errors import ScheduleError
from treadle.schedules.in_network import inputs_of, members_at, unnamed_crossings
from treadle.schedules.link_times import load_time
from treadle.schedules.steps.steps import PathKind, Steps, StepSchedule
from treadle.topologies.topology import Topology


def step_loads(topology: Topology, steps: Steps) -> Iterator[Int64Array]:
    """Yield the chunks that cross each link, shape (m,), step by step."""
    none = repeat(np.zeros(topology.n_links, dtype=np.int64))
    additional = _operation_loads(topology, steps) if steps.has_operations else none
    sizes = steps.high.astype(np.int64) - steps.low
    for step, more in zip(range(steps.n_steps), additional, strict=False):
        span = steps.span(step)
        links, chunks = steps.link[span], sizes[span]
        if steps.has_paths:
            on_paths = np.bincount(links, weights=chunks, minlength=steps.n_paths)
            links, chunks = steps.way_links, np.repeat(on_paths, np.diff(steps.way_offset))
        load = np.bincount(links, weights=chunks, minlength=topology.n_links)
        yield load.astype(np.int64) + more  # exact: a double counts chunks up to 2**53


def _operation_loads(topology: Topology, steps: Steps) -> Iterator[Int64Array]:
    """Yield loads of in-network operations in addition to their paths, negative for shared links.

    Every rank must be an end of some path, as in all schedules that reach all ranks.
    """
    lanes, groups = inputs_of(topology), dict[int, tuple[int, ...]]()
    first, last = steps.way_links[steps.way_offset[:-1]], steps.way_links[steps.way_offset[1:] - 1]
    nodes = np.unique(np.concatenate([topology.tails[first], topology.heads[last]])).tolist()
    for step in range(steps.n_steps):
        loads = np.zeros(topology.n_links, dtype=np.int64)
        for outward, link, others, chunks in _operations(steps, step):
            loads[link] -= (len(others) - 1) * chunks
            near, far = (topology.tails, topology.heads) if outward else (topology.heads, topology.tails)
            call = int(near[link]), int(far[link]), link
            if call[1] not in groups:
                groups[call[1]] = members_at(lanes, call[1], nodes)
            reached = far[others].tolist()
            for crossed in unnamed_crossings(lanes, groups[call[1]], reached, call, outward=outward):
                loads[crossed] += chunks
        yield loads


def _operations(steps: Steps, step: int) -> Iterator[tuple[bool, int, list[int], int]]:
    """Yield the operations of a step: whether each is a multicast, its link, its other links, and chunks."""
    span = steps.span(step)
    sends = span.start + np.flatnonzero(steps.way_kinds[steps.link[span]])
    paths = steps.link[sends]
    ends = np.stack([steps.way_links[steps.way_offset[:-1][paths] + place] for place in (0, 1)])
    columns = (steps.way_kinds[paths], *ends, steps.shard[sends], steps.low[sends], steps.high[sends])
    found: dict[tuple[bool, int, int], list[tuple[int, int, int]]] = defaultdict(list)
    for kind, first, last, shard, low, high in zip(*(column.tolist() for column in columns), strict=True):
        outward = kind == PathKind.COPY
        link, other = (first, last) if outward else (last, first)
        found[outward, link, shard].append((other, low, high))
    for (outward, link, _), rows in found.items():
        for low, high in pairwise(sorted({bound for _, *ends in rows for bound in ends})):
            others = [other for other, first, end in rows if first <= low and high <= end]
            if others:
                yield outward, link, others, high - low


def shard_fraction(schedule: StepSchedule, steps: Steps) -> Fraction:
    """Return the size of one shard as a fraction of the collective's `size`."""
    return Fraction(1) if schedule.has_full_shards else Fraction(1, steps.n_shards)


def bandwidth_time(topology: Topology, schedule: StepSchedule) -> Fraction:
    """Return T_B, seconds per byte of `size`: the sum over all steps of the slowest link's time, exact."""
    total = Fraction(0)
    for steps in schedule.phases:
        loads = step_loads(topology, steps)
        times = sum((load_time(topology, load) for load in loads), Fraction(0))
        total += shard_fraction(schedule, steps) / steps.n_chunks * times
    return total


def node_bandwidth(topology: Topology) -> int:
    """Return B, the egress bandwidth of a node and its self-loops, bytes/s; ScheduleError if nodes differ."""
    ends = np.concatenate([topology.tails, topology.heads + topology.n_nodes])
    totals = sums_of(2 * topology.n_nodes, ends, np.tile(topology.bandwidths, 2))
    if not totals.size or totals.min() != totals.max():
        raise ScheduleError(f"{topology.name}: nodes differ in bandwidth; T_B in M/B is for regular fabrics")
    return int(totals[0])


def algbw(topology: Topology, schedule: StepSchedule) -> Fraction:
    """Return the asymptotic algorithmic bandwidth, bytes/s: size / time without latencies."""
    time = bandwidth_time(topology, schedule)
    if not time:
        raise ScheduleError("the schedule sends nothing, so it has no throughput")
    return 1 / time
