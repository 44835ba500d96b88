"""What a step schedule costs: steps, exact loads per step, bandwidth time, and time at a size.

Notation of the dissertation, section 3.3.2: T_L = alpha * (number of steps); T_B = sum over the steps of the
time that the most loaded link needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.schedules.steps.switched_steps import StepCrossings
from treadle.topologies.topology import Topology


def step_loads(topology: Topology, steps: Steps) -> Iterator[Int64Array]:
    """Chunks that cross each link, shape (m,), step by step."""
    crossings = StepCrossings(topology, steps) if steps.has_operations else None
    sizes = steps.high.astype(np.int64) - steps.low
    for step in range(steps.n_steps):
        span = steps.span(step)
        if steps.has_paths:
            load = np.bincount(steps.link[span], weights=sizes[span], minlength=steps.n_paths)
            load = np.bincount(
                steps.way_links,
                weights=np.repeat(load, np.diff(steps.way_offset)),
                minlength=topology.n_links,
            )
        else:
            load = np.bincount(steps.link[span], weights=sizes[span], minlength=topology.n_links)
        load = load.astype(np.int64)  # exact: a double counts chunks up to 2**53
        yield load if crossings is None else load + crossings.extra_chunks(step)


def shard_fraction(schedule: StepSchedule, steps: Steps) -> Fraction:
    """Part of the collective's `size` that one shard is."""
    return Fraction(1) if schedule.has_full_shards else Fraction(1, steps.n_shards)


def bandwidth_time(topology: Topology, schedule: StepSchedule) -> Fraction:
    """T_B: seconds per byte of `size`, the sum over all steps of the slowest link's time, exact."""
    return sum((_phase_time(topology, schedule, steps) for steps in schedule.phases), Fraction(0))


def _phase_time(topology: Topology, schedule: StepSchedule, steps: Steps) -> Fraction:
    chunk = shard_fraction(schedule, steps) / steps.n_chunks
    return chunk * sum((_slowest(topology, load) for load in step_loads(topology, steps)), Fraction(0))


def _slowest(topology: Topology, load: Int64Array) -> Fraction:
    """Chunks over bandwidth of the slowest link or capped host, seconds if a chunk were a byte."""
    times = [
        Fraction(int(load[topology.bandwidths == bandwidth].max()), int(bandwidth))
        for bandwidth in np.unique(topology.bandwidths)
    ]
    # chunks out of, then into every host with an injection cap, and the caps in bytes/s
    capped = np.flatnonzero(topology.injection_bytes_per_s)
    totals = np.zeros((2, topology.n_nodes), dtype=np.int64)
    if capped.size:
        np.add.at(totals[0], topology.tails, load)
        np.add.at(totals[1], topology.heads, load)
    hosts, caps = totals[:, capped].reshape(-1), np.tile(topology.injection_bytes_per_s[capped], 2)
    times += [Fraction(chunks, cap) for chunks, cap in zip(hosts.tolist(), caps.tolist(), strict=True)]
    return max(times, default=Fraction(0))


def node_bandwidth(topology: Topology) -> int:
    """B: total egress bandwidth of a node, self-loops included, bytes/s; ScheduleError if nodes differ."""
    totals = np.zeros((2, topology.n_nodes), dtype=np.int64)
    np.add.at(totals[0], topology.tails, topology.bandwidths)
    np.add.at(totals[1], topology.heads, topology.bandwidths)
    if not totals.size or totals.min() != totals.max():
        raise ScheduleError(f"{topology.name}: nodes differ in bandwidth; T_B in M/B is for regular fabrics")
    return int(totals[0, 0])


def algbw(topology: Topology, schedule: StepSchedule) -> Fraction:
    """Asymptotic algorithmic bandwidth, bytes/s: size / time as latencies vanish."""
    time = bandwidth_time(topology, schedule)
    if not time:
        raise ScheduleError("the schedule sends nothing, so it has no throughput")
    return 1 / time
