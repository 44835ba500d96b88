"""Breadth-first broadcast over links of different latency and bandwidth, at a given size (section A.5.3).

Within time T a link carries max(0, T - latency) * bandwidth, so a latency is paid only where something is
sent. Newton's iteration over cuts finds the least T of each step, which is the optimum over all ways to leave
links out; program (A.12) of the dissertation needs a new solution for each.
Source: docs/how-it-works/direct-connect.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import gcd

from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.synthesis.steps.bfb.breadth_first import bfb_schedule, both_phases, split_by_capacity
from treadle.synthesis.steps.bfb.in_links import core_loads, link_rows
from treadle.synthesis.steps.bfb.integral_loads import (
    StepProblem,
    balance,
    check_chunks,
    shortest_time,
    time_of_cut,
)
from treadle.topologies.topology import Topology

_NANO = 10**9


@dataclass(frozen=True)
class HeterogeneousValue:
    """Time of the best breadth-first-broadcast allgather at a size.

    Parameters
    ----------
    size_bytes : int
        M, received in all by each node.
    step_times_s : tuple of Fraction
        Shortest time of each step, seconds.
    """

    size_bytes: int
    step_times_s: tuple[Fraction, ...]

    @property
    def runtime_s(self) -> Fraction:
        """Sum of the steps' times."""
        return sum(self.step_times_s, Fraction(0))


def heterogeneous_value(topology: Topology, size_bytes: int) -> HeterogeneousValue:
    """Exact shortest time, step by step, of a breadth-first-broadcast allgather of `size_bytes`.

    Parameters
    ----------
    topology : Topology
        Compute nodes only; bandwidths and latencies of the links may differ.
    size_bytes : int
        M; a shard is M/N bytes.

    Raises
    ------
    TopologyError, InfeasibleError
        As for `bfb_value`.
    ScheduleError
        If the size is not positive, or exact arithmetic would need more than 128 bits.

    Notes
    -----
    Linear program (A.12), with a link's latency paid only if it is used: within time T a link carries
    max(0, T - latency) * bandwidth. What the dissertation seeks by removing links that are not used and
    solving again, repeatedly, is the least T at which these capacities suffice. Newton's iteration:
    capacities of a T that is too small yield a cut, and the least T that satisfies the cut is next; it ends
    at the optimum, since cuts are finitely many and each T is a lower bound.
    """
    problem = _make_problem(topology, size_bytes)
    capacities = partial(_scaled_capacities, problem)
    times = tuple(
        shortest_time(problem, step, capacities, lambda cut: time_of_cut(problem, *cut))[0]
        for step in range(1, problem.n_steps + 1)
    )
    return HeterogeneousValue(size_bytes, times)


def heterogeneous_allgather(topology: Topology, size_bytes: int, *, max_chunks: int | None = None) -> Steps:
    """Breadth-first-broadcast allgather that is fastest at `size_bytes`.

    Parameters
    ----------
    topology, size_bytes
        As for `heterogeneous_value`.
    max_chunks : int, optional
        Most chunks per shard: the number up to this with the shortest time (of those up to 4096). Default:
        the smallest up to 1024 that attains `heterogeneous_value`, else that which loses at most 0.1%.

    Raises
    ------
    TopologyError, InfeasibleError, ScheduleError
        As for `heterogeneous_value`; ScheduleError if `max_chunks` is out of range.

    Notes
    -----
    Exactly optimal for its number of chunks, by the integrality of flows.
    """
    check_chunks(max_chunks)
    problem = _make_problem(topology, size_bytes)
    count, capacity = balance(problem, max_chunks)
    return split_by_capacity(problem.instance, capacity, problem.n_steps, count)


def schedule_for_size(
    topology: Topology, kind: CollectiveKind, size_bytes: int, *, chunks: int | None = None
) -> StepSchedule:
    """Breadth-first-broadcast schedule that is fastest at a size, not for the largest data.

    Parameters
    ----------
    topology : Topology
    kind : CollectiveKind
        Without a root. Allreduce is reduce-scatter, then allgather, each of the whole size.
    size_bytes : int
        M, of the larger buffer of a rank.
    chunks : int, optional
        Most chunks per shard.

    Raises
    ------
    TopologyError, InfeasibleError, ScheduleError
        As for `heterogeneous_allgather`; ScheduleError if the collective has a root.

    Notes
    -----
    Where all links have one latency every step pays it once, whichever links it uses: what is fastest for the
    largest data is so at every size. Time that a step takes besides (alpha) changes nothing either, since the
    distances fix the number of steps.
    """
    if kind.is_rooted:
        raise ScheduleError(
            f"bfb: {kind} has one root, and breadth-first broadcast for a size is of all ranks' shards; "
            f"leave out the size"
        )
    latencies = topology.latencies_ns
    if (latencies == latencies[:1]).all():
        return bfb_schedule(topology, kind, max_chunks=chunks)
    return both_phases(
        topology, kind, lambda fabric: heterogeneous_allgather(fabric, size_bytes, max_chunks=chunks)
    )


def _make_problem(topology: Topology, size_bytes: int) -> StepProblem:
    if size_bytes < 1:
        raise ScheduleError(f"size: expected at least 1 byte, found {size_bytes}")
    instance = link_rows(topology)
    n_steps = len(core_loads(instance).numerator)
    return StepProblem(
        instance=instance,
        latency_ns=topology.latencies_ns[instance.link].tolist(),
        bandwidth=topology.bandwidths[instance.link].tolist(),
        shard_bytes=Fraction(size_bytes, instance.n),
        n_steps=n_steps,
    )


def _scaled_capacities(problem: StepProblem, time: Fraction) -> tuple[list[int], int]:
    """max(0, T - latency) * bandwidth in shards, and one shard, times a common denominator."""
    p, q, shard = time.numerator, time.denominator, problem.shard_bytes
    units = _NANO * q * shard.numerator
    capacity = [
        max(0, _NANO * p - latency * q) * bandwidth * shard.denominator
        for latency, bandwidth in zip(problem.latency_ns, problem.bandwidth, strict=True)
    ]
    divisor = gcd(units, *capacity)
    return [c // divisor for c in capacity], units // divisor
