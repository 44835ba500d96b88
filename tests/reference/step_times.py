"""Times of step schedules as in the dissertation: T_B in M/B, T_C, and the alpha-beta model in floats."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from treadle.schedules.steps.step_cost import bandwidth_time, node_bandwidth, shard_fraction, step_loads
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import Direction
from treadle.topologies.topology import Topology


def t_b(topology: Topology, schedule: StepSchedule) -> Fraction:
    """T_B in units of M/B, B the total egress bandwidth of a node.

    A self-loop uses a port, so it counts in B although it carries nothing.

    Raises
    ------
    ScheduleError
        If the nodes have different bandwidths, so that B is not defined.
    """
    return bandwidth_time(topology, schedule) * node_bandwidth(topology)


def runtime_s(
    topology: Topology,
    schedule: StepSchedule,
    size_bytes: int,
    *,
    alpha_s: float = 0.0,
    gamma_s_per_byte: float = 0.0,
) -> float:
    """Time of the alpha-beta model: per step, the slowest of (latency + bytes / bandwidth) over used links.

    A host with an injection cap takes at least bytes / cap, out and in.

    Parameters
    ----------
    topology : Topology
        Its links' own latencies count (section A.5.3).
    schedule : StepSchedule
    size_bytes : int
        As nccl-tests defines it: the larger per-rank buffer.
    alpha_s : float
        Added per step, seconds.
    gamma_s_per_byte : float
        Time to add up a byte that has come, between steps (section A.3.4): T_C of `reduction_time`.
    """
    total = gamma_s_per_byte * size_bytes * float(reduction_time(topology, schedule))
    for steps in schedule.phases:
        chunk_bytes = float(shard_fraction(schedule, steps) / steps.n_chunks) * size_bytes
        for load in step_loads(topology, steps):
            used = np.flatnonzero(load)
            if used.size:
                times = load[used] * chunk_bytes / topology.bandwidths[used]
                slowest = float((topology.latencies_ns[used] * 1e-9 + times).max())
                caps = topology.injection_bytes_per_s
                hosts = [
                    load[end == node].sum() * chunk_bytes / caps[node]
                    for end in (topology.tails, topology.heads)
                    for node in np.flatnonzero(caps)
                ]
                total += max([slowest, *map(float, hosts)])
            total += alpha_s
    return total


def reduction_time(topology: Topology, schedule: StepSchedule) -> Fraction:
    """T_C in units of gamma * size (section A.3.4): per step, the most that any node has to add up.

    At most T_B in M/B on a regular fabric (Theorem 6).
    """
    total = Fraction(0)
    for steps in schedule.phases:
        if steps.direction is Direction.REDUCE:
            chunk = shard_fraction(schedule, steps) / steps.n_chunks
            for load in step_loads(topology, steps):
                received = np.bincount(topology.heads, weights=load, minlength=topology.n_nodes)
                total += chunk * int(received.max())
    return total
