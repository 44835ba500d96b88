"""Costs of a step schedule: exact loads of each step, bandwidth time, and algbw.

Notation of the dissertation, section 3.3.2: T_L = alpha * (number of steps); T_B = sum over the steps of the
time that the most loaded link needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array, sums_of
from treadle.errors import ScheduleError
from treadle.schedules.link_times import load_time
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.schedules.steps.switched_steps import StepCrossings
from treadle.topologies.topology import Topology


def step_loads(topology: Topology, steps: Steps) -> Iterator[Int64Array]:
    """Yield the chunks that cross each link, shape (m,), step by step."""
    crossings = StepCrossings(topology, steps) if steps.has_operations else None
    sizes = steps.high.astype(np.int64) - steps.low
    for step in range(steps.n_steps):
        span = steps.span(step)
        links, chunks = steps.link[span], sizes[span]
        if steps.has_ways:
            on_paths = np.bincount(links, weights=chunks, minlength=steps.n_ways)
            links, chunks = steps.way_links, np.repeat(on_paths, np.diff(steps.way_offset))
        load = np.bincount(links, weights=chunks, minlength=topology.n_links)
        load = load.astype(np.int64)  # exact: a double counts chunks up to 2**53
        yield load if crossings is None else load + crossings.additional(step)


def shard_fraction(schedule: StepSchedule, steps: Steps) -> Fraction:
    """Return the size of one shard as a fraction of the collective's `size`."""
    return Fraction(1) if schedule.has_whole_shards else Fraction(1, steps.n_shards)


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
