"""Breadth-first broadcast over links of different latency and bandwidth, at a given size (section A.5.3).

Within time T a link carries max(0, T - latency) * bandwidth, so a latency is paid only where something is
sent. Newton's iteration over cuts finds the least T of each step, which is the optimum over all ways to leave
links out; program (A.12) of the dissertation needs a new solution for each. Source: docs/algorithms/bfb.md,
"Unequal links".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heapreplace
from math import gcd, lcm

import numpy as np

from treadle.engine import core, run_watched
from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.steps.steps import MAX_CHUNKS, Steps, StepSchedule
from treadle.synthesis.core_values.integers import Wide, WideArray
from treadle.synthesis.core_values.step_values import CutJobs
from treadle.synthesis.steps.bfb.breadth_first import backwards, bfb_schedule, split_by_capacity
from treadle.synthesis.steps.bfb.in_links import OK, VIOLATED, InLinkRows, core_loads, link_rows, unreachable
from treadle.topologies.topology import Topology
from treadle.watch import UNWATCHED, Watch

DEFAULT_CHUNKS = 1024
"""Most chunks per shard unless the caller asks for more."""

_NANO = 10**9


@dataclass(frozen=True)
class HeterogeneousValue:
    """Time of the best breadth-first-broadcast allgather at a size.

    Parameters
    ----------
    size_bytes : int
        M, received in all by each node.
    step_times_s : tuple of Fraction
        Least time of each step, seconds.
    idle_links : tuple of tuples of int
        Per step, links whose latency is not below the step's time; no best schedule uses them in it.
    """

    size_bytes: int
    step_times_s: tuple[Fraction, ...]
    idle_links: tuple[tuple[int, ...], ...]

    @property
    def runtime_s(self) -> Fraction:
        """Sum of the steps' times."""
        return sum(self.step_times_s, Fraction(0))


@dataclass(frozen=True)
class _Problem:
    """The instance with the numbers of its in-links as Python integers."""

    instance: InLinkRows
    latency_ns: list[int]
    bandwidth: list[int]
    shard_bytes: Fraction
    n_steps: int
    watch: Watch


def heterogeneous_value(
    topology: Topology, size_bytes: int, *, watch: Watch = UNWATCHED
) -> HeterogeneousValue:
    """Exact least time, step by step, of a breadth-first-broadcast allgather of `size_bytes`.

    Parameters
    ----------
    topology : Topology
        Compute nodes only; bandwidths and latencies of the links may differ.
    size_bytes : int
        M; a shard is M/N bytes.
    watch : Watch

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
    problem = _pose(topology, size_bytes, watch)
    times = tuple(
        _least_time(problem, step, _scaled_capacities, _time_of_cut) for step in range(1, problem.n_steps + 1)
    )
    latencies = sorted(zip(problem.instance.link.tolist(), problem.latency_ns, strict=True))
    idle = tuple(
        tuple(link for link, latency in latencies if Fraction(latency, _NANO) >= time) for time in times
    )
    return HeterogeneousValue(size_bytes, times, idle)


def heterogeneous_allgather(
    topology: Topology,
    size_bytes: int,
    *,
    chunks: int | None = None,
    watch: Watch = UNWATCHED,
) -> Steps:
    """Breadth-first-broadcast allgather that is fastest at `size_bytes` among those with `chunks` per shard.

    Parameters
    ----------
    topology, size_bytes, watch
        As for `heterogeneous_value`.
    chunks : int, optional
        P. Default: a number that attains `heterogeneous_value`, if one up to 1024 is known to; else 1024.

    Raises
    ------
    TopologyError, InfeasibleError, ScheduleError
        As for `heterogeneous_value`; ScheduleError if `chunks` is out of range.

    Notes
    -----
    Newton's iteration as in `heterogeneous_value`, with capacities rounded down to whole chunks: exactly
    optimal for the given P, by the integrality of flows.
    """
    if chunks is not None and not 1 <= chunks <= MAX_CHUNKS:
        raise ScheduleError(f"chunks per shard: expected 1 to 2**24, found {chunks}")
    problem = _pose(topology, size_bytes, watch)
    count = _sufficient_chunks(problem) if chunks is None else chunks

    def capacities(problem: _Problem, time: Fraction) -> tuple[list[int], int]:
        return _whole_chunks(problem, time, count), count

    def time_of_cut(problem: _Problem, links: list[int], jobs: int) -> Fraction:
        return _time_of_whole_chunks(problem, links, jobs, count)

    rows = []
    for step in range(1, problem.n_steps + 1):
        time = _least_time(problem, step, capacities, time_of_cut)
        rows.append(_whole_chunks(problem, time, count))
    flat = np.array(rows, dtype=np.int64).ravel()
    return split_by_capacity(problem.instance, flat, problem.n_steps, count, watch=watch)


def schedule_for_size(
    topology: Topology,
    kind: CollectiveKind,
    size_bytes: int,
    *,
    chunks: int | None = None,
    watch: Watch = UNWATCHED,
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
        P of `heterogeneous_allgather`, or most of them where latencies are equal.
    watch : Watch

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
    is_level = bool((latencies == latencies[:1]).all())
    is_even = chunks is None or bool((topology.bandwidths == topology.bandwidths[:1]).all())
    if is_level and is_even:
        return bfb_schedule(topology, kind, max_chunks=chunks, watch=watch)

    def gathered(fabric: Topology) -> Steps:
        return heterogeneous_allgather(fabric, size_bytes, chunks=chunks, watch=watch)

    return StepSchedule(
        kind,
        reduce=backwards(gathered(topology.transpose())) if kind.reduces else None,
        broadcast=gathered(topology) if kind.broadcasts else None,
    )


def _pose(topology: Topology, size_bytes: int, watch: Watch) -> _Problem:
    if size_bytes < 1:
        raise ScheduleError(f"size: expected at least 1 byte, found {size_bytes}")
    instance = link_rows(topology)
    n_steps = len(core_loads(instance, watch=watch).numerator)
    return _Problem(
        instance=instance,
        latency_ns=[int(x) for x in topology.latencies_ns[instance.link]],
        bandwidth=[int(x) for x in topology.bandwidths[instance.link]],
        shard_bytes=Fraction(size_bytes, instance.n),
        n_steps=n_steps,
        watch=watch,
    )


def _least_time(
    problem: _Problem,
    step: int,
    capacities: Callable[[_Problem, Fraction], tuple[list[int], int]],
    time_of_cut: Callable[[_Problem, list[int], int], Fraction],
) -> Fraction:
    """Least time at which the capacities suffice for all nodes in `step`."""
    time = Fraction(0)
    while True:
        cuts = _find_cuts(problem, step, *capacities(problem, time))
        if not cuts:
            return time
        # every cut proves its time for the whole step: the latest of these bounds is still one
        later = max(time_of_cut(problem, links, jobs) for links, jobs in cuts)
        assert later > time
        time = later


def _find_cuts(problem: _Problem, step: int, capacity: list[int], units: int) -> list[tuple[list[int], int]]:
    """(in-links, number of jobs that have no other) of every node whose capacities do not suffice."""
    instance = problem.instance
    enough = instance.n * units
    if enough >= 2**125:
        raise ScheduleError(
            f"{instance.topology.name}: latencies, bandwidths and size need more than 128 bits in exact "
            f"arithmetic; round them"
        )
    # what could carry every job is no cut: clipped, so that sums stay within 128 bits
    clipped = WideArray.of([min(c, enough) for c in capacity])
    status, found, failure = run_watched(
        "bfb cuts",
        lambda control: core.bfb_cuts(instance.in_links, step, clipped, Wide.of(units), control),
        watch=problem.watch,
    )
    if status == VIOLATED:
        raise unreachable(instance.topology, *failure)
    assert status == OK, status
    cuts = CutJobs(*found)
    parts = np.split(cuts.links, cuts.offset[1:-1])
    return [(part.tolist(), int(count)) for part, count in zip(parts, cuts.jobs, strict=False)]


def _scaled_capacities(problem: _Problem, time: Fraction) -> tuple[list[int], int]:
    """max(0, T - latency) * bandwidth in shards, and one shard, times a common denominator."""
    p, q, shard = time.numerator, time.denominator, problem.shard_bytes
    units = _NANO * q * shard.numerator
    capacity = [
        max(0, _NANO * p - latency * q) * bandwidth * shard.denominator
        for latency, bandwidth in zip(problem.latency_ns, problem.bandwidth, strict=True)
    ]
    divisor = gcd(units, *capacity)
    return [c // divisor for c in capacity], units // divisor


def _time_of_cut(problem: _Problem, links: list[int], jobs: int) -> Fraction:
    """Least T with sum of max(0, T - latency) * bandwidth = jobs shards."""
    order = sorted(links, key=lambda e: problem.latency_ns[e])
    amount, bandwidth, time = jobs * problem.shard_bytes, 0, Fraction(0)
    for i, e in enumerate(order):
        amount += Fraction(problem.latency_ns[e], _NANO) * problem.bandwidth[e]
        bandwidth += problem.bandwidth[e]
        time = amount / bandwidth
        # links whose latency is not below T carry nothing: T is right once no link left out would help
        if i + 1 == len(order) or time <= Fraction(problem.latency_ns[order[i + 1]], _NANO):
            break
    return time


def _whole_chunks(problem: _Problem, time: Fraction, chunks: int) -> list[int]:
    """Chunks that each in-link carries within a time; never more than there are."""
    return [_chunks_of_link(problem, e, time, chunks) for e in range(len(problem.latency_ns))]


def _chunks_of_link(problem: _Problem, e: int, time: Fraction, chunks: int) -> int:
    p, q, shard = time.numerator, time.denominator, problem.shard_bytes
    nanoseconds = max(0, _NANO * p - problem.latency_ns[e] * q)
    amount = nanoseconds * problem.bandwidth[e] * shard.denominator * chunks
    return min(problem.instance.n * chunks, amount // (_NANO * q * shard.numerator))


def _time_of_whole_chunks(problem: _Problem, links: list[int], jobs: int, chunks: int) -> Fraction:
    """Least T at which the links together carry `jobs` shards in whole chunks."""
    chunk = problem.shard_bytes / chunks
    time = _time_of_cut(problem, links, jobs)
    carried = {e: _chunks_of_link(problem, e, time, chunks) for e in links}
    missing = jobs * chunks - sum(carried.values())

    def next_time(e: int, count: int) -> Fraction:
        return Fraction(problem.latency_ns[e], _NANO) + (count + 1) * chunk / problem.bandwidth[e]

    # Rounding down costs less than a chunk per link, so that few whole chunks are missing.
    heap = [(next_time(e, carried[e]), e, carried[e]) for e in links]
    heapify(heap)
    for _ in range(missing):
        time, e, count = heap[0]
        heapreplace(heap, (next_time(e, count + 1), e, count + 1))
    return time


def _sufficient_chunks(problem: _Problem) -> int:
    """Common denominator of all links' capacities in shards at the least times, if it is small."""
    denominators = {1}
    for step in range(1, problem.n_steps + 1):
        time = _least_time(problem, step, _scaled_capacities, _time_of_cut)
        capacity, units = _scaled_capacities(problem, time)
        enough = problem.instance.n * units
        denominators |= {units // gcd(units, min(c, enough)) for c in capacity}
        if lcm(*denominators) > DEFAULT_CHUNKS:
            return DEFAULT_CHUNKS
    return lcm(*denominators)
