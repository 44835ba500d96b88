"""Integer load balancing: the shortest time of each step when links carry whole chunks.

Within time T a link carries floor(max(0, T - latency) * bandwidth / chunk) chunks. By the integrality of
flows these capacities suffice unless a cut forbids it, so Newton's iteration over cuts ends at the optimum
for a number of chunks. Cuts found for one number bound the time of all others, which leaves few numbers to
try. Source: dissertation, appendix A.5.2 and A.5.3; docs/how-it-works/direct-connect.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heapreplace
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.context import context
from treadle.engine import core, run_core
from treadle.errors import ScheduleError
from treadle.schedules.steps.steps import MAX_CHUNKS
from treadle.synthesis.core_values.integers import Wide, WideArray
from treadle.synthesis.core_values.step_values import CutJobs
from treadle.synthesis.steps.bfb.in_links import OK, VIOLATED, InLinkRows, unreachable

DEFAULT_CHUNKS = 1024
"""Most chunks per shard unless the caller sets more."""

MOST_COUNTS = 4096
"""The best number of chunks is sought among all up to this."""

_TOLERANCE = Fraction(1, 1000)
"""Default for how much longer a schedule may take than with shards that are cut anywhere."""

_NANO = 10**9
_ROUNDING = 1e-9
"""Floating-point bounds stay clear of their rounding errors by this, relatively."""

Cut = tuple[tuple[int, ...], int]
"""In-links, and the number of jobs that have no other."""


@dataclass(frozen=True)
class StepProblem:
    """An instance with the numbers of its in-links as Python integers.

    Parameters
    ----------
    instance : InLinkRows
    latency_ns, bandwidth : list of int
        Of each in-link; bandwidths in bytes/s.
    shard_bytes : Fraction
    n_steps : int
    """

    instance: InLinkRows
    latency_ns: list[int]
    bandwidth: list[int]
    shard_bytes: Fraction
    n_steps: int


def check_chunks(chunks: int | None) -> None:
    """Raise ScheduleError for a number of chunks that no schedule has."""
    if chunks is not None and not 1 <= chunks <= MAX_CHUNKS:
        raise ScheduleError(f"chunks per shard: expected 1 to 2**24, found {chunks}")


def balance(problem: StepProblem, max_chunks: int | None) -> tuple[int, Int64Array]:
    """Return a number of chunks per shard and the capacities of the best schedule with it.

    Parameters
    ----------
    problem : StepProblem
    max_chunks : int, optional
        Return the number up to this (and `MOST_COUNTS`) with the shortest time, of several the smallest.
        Default: the smallest number up to `DEFAULT_CHUNKS` without loss, else that with at most 0.1% loss,
        else `DEFAULT_CHUNKS`.

    Returns
    -------
    int
    array of int64
        Chunks that each in-link may carry in each step, row-major.
    """
    search = _Search(problem)
    if max_chunks is None:
        count = search.smallest(DEFAULT_CHUNKS)
        times = search.step_times(count)
    else:
        count, times = search.best(min(max_chunks, MOST_COUNTS))
    rows = [integral_capacities(problem, time, count) for time in times]
    return count, np.array(rows, dtype=np.int64).ravel()


class _Search:
    """Cuts that bind in some step for some number of chunks, and what they prove for the others."""

    def __init__(self, problem: StepProblem) -> None:
        self._problem = problem
        self._cuts: list[dict[Cut, Fraction]] = [{} for _ in range(problem.n_steps)]
        """For each step cuts, with the time that each proves for shards that are cut anywhere."""

        self._proved_by: tuple[int, NDArray[np.float64]] = 0, np.zeros(0)
        """Number of cuts, and what they prove for each number of chunks."""
        self._bound_of: dict[Cut, NDArray[np.float64]] = {}

    def _add(self, step: int, cut: Cut) -> None:
        self._cuts[step - 1][cut] = time_of_cut(self._problem, *cut)

    def step_times(self, count: int) -> list[Fraction]:
        """The shortest time of each step with `count` chunks per shard."""
        problem = self._problem

        def capacities(time: Fraction) -> tuple[list[int], int]:
            return integral_capacities(problem, time, count), count

        def proved(cut: Cut) -> Fraction:
            return _integral_time_of_cut(problem, *cut, count)

        times = []
        for step in range(1, problem.n_steps + 1):
            start = max(map(proved, self._cuts[step - 1]), default=Fraction(0))
            time, cut = shortest_time(problem, step, capacities, proved, start)
            if cut is not None:
                self._add(step, cut)
            times.append(time)
        return times

    def smallest(self, limit: int) -> int:
        """The smallest number up to `limit` without loss, else that with little; else `limit`."""
        steps, counts = range(1, self._problem.n_steps + 1), np.arange(1, limit + 1)
        self.step_times(limit)

        def least() -> Fraction:
            """Time of all steps that the cuts found so far prove for shards that are cut anywhere."""
            return sum(map(self._lower_bound, steps), Fraction(0))

        def may_attain(count: int, longer: Fraction) -> bool:
            """Whether no cut found so far proves a time of more than `longer` times the least."""
            return bool(self._proved(counts)[count - 1] <= float(longer * least()) * (1 + _ROUNDING))

        for count in range(1, limit + 1):
            if may_attain(count, Fraction(1)) and all(self._loses_nothing(step, count) for step in steps):
                return count
        longer = 1 + _TOLERANCE
        for count in range(1, limit + 1):
            if may_attain(count, longer) and sum(self.step_times(count)) <= longer * least():
                return count
        return limit

    def _lower_bound(self, step: int) -> Fraction:
        """Time of a step that the cuts found so far prove for shards that are cut anywhere."""
        return max(self._cuts[step - 1].values(), default=Fraction(0))

    def _loses_nothing(self, step: int, count: int) -> bool:
        """Whether `count` chunks per shard take no longer in a step than shards that are cut anywhere."""
        problem, known = self._problem, self._cuts[step - 1]
        while True:
            time = self._lower_bound(step)
            if any(
                sum(_chunks_of_link(problem, e, time, count) for e in links) < jobs * count
                for links, jobs in known
            ):
                return False
            cuts = _find_cuts(problem, step, integral_capacities(problem, time, count), count)
            if not cuts:
                return True
            self._add(step, max(cuts, key=lambda cut: time_of_cut(problem, *cut)))

    def best(self, limit: int) -> tuple[int, list[Fraction]]:
        """Return the smallest number up to `limit` with the shortest time, and the step times.

        Numbers are tried in the order of what the cuts found so far prove for them, until none is left that
        could be better; with a deadline for half of the time that is left.
        """
        left = context().seconds_left
        until = None if left is None else monotonic() + left / 2
        counts = np.arange(1, limit + 1)
        is_open = np.ones(limit, dtype=np.bool_)
        tried: dict[int, list[Fraction]] = {}
        count = limit
        while True:
            tried[count] = self.step_times(count)
            is_open[count - 1] = False
            best = min(tried, key=lambda number: (sum(tried[number]), number))
            least = float(sum(tried[best]))
            proved = self._proved(counts)
            is_open &= (proved < least * (1 - _ROUNDING)) | (
                (proved <= least * (1 + _ROUNDING)) & (counts < best)
            )
            if not is_open.any() or (until is not None and monotonic() > until):
                return best, tried[best]
            count = int(counts[np.where(is_open, proved, np.inf).argmin()])

    def _proved(self, counts: Int64Array) -> NDArray[np.float64]:
        """Time of all steps that the cuts found so far prove for each number of chunks."""
        n_cuts = sum(map(len, self._cuts))
        if self._proved_by[0] != n_cuts:
            total = np.zeros(len(counts))
            for known in self._cuts:
                for cut in known:
                    if cut not in self._bound_of:
                        self._bound_of[cut] = self._bounds(cut, counts)
                total += np.max([self._bound_of[cut] for cut in known], axis=0, initial=0)
            self._proved_by = n_cuts, total
        return self._proved_by[1]

    def _bounds(self, cut: Cut, counts: Int64Array) -> NDArray[np.float64]:
        """Times that a cut proves for each number of chunks, as `_integral_time_of_cut` but for rounding."""
        problem, (links, jobs) = self._problem, cut
        latency = np.array([problem.latency_ns[e] / _NANO for e in links])
        seconds = np.outer(1 / counts, [float(problem.shard_bytes / problem.bandwidth[e]) for e in links])
        time = np.full(len(counts), float(time_of_cut(problem, *cut)))
        carried = np.floor(np.maximum(0, time[:, None] - latency) / seconds * (1 + _ROUNDING) + _ROUNDING)
        missing = jobs * counts - carried.sum(axis=1)
        rows = np.flatnonzero(missing > 0)
        while rows.size:
            later = latency + (carried[rows] + 1) * seconds[rows]
            first = later.argmin(axis=1)
            time[rows] = np.maximum(time[rows], later.min(axis=1))
            carried[rows, first] += 1
            missing[rows] -= 1
            rows = rows[missing[rows] > 0]
        return time


def shortest_time(
    problem: StepProblem,
    step: int,
    capacities: Callable[[Fraction], tuple[list[int], int]],
    time_of: Callable[[Cut], Fraction],
    start: Fraction = Fraction(0),
) -> tuple[Fraction, Cut | None]:
    """Shortest time, at or after `start`, at which capacities suffice in a step; and the cut that proves it.

    `capacities` are in units of which it gives the number in a shard, too; without a cut `start` suffices.
    """
    time, last = start, None
    while True:
        cuts = _find_cuts(problem, step, *capacities(time))
        if not cuts:
            return time, last
        # every cut proves its time for the whole step: the latest of these bounds is still one
        last = max(cuts, key=time_of)
        later = time_of(last)
        assert later > time
        time = later


def _find_cuts(problem: StepProblem, step: int, capacity: list[int], units: int) -> list[Cut]:
    """The cut of every node whose capacities do not suffice."""
    instance = problem.instance
    enough = instance.n * units
    if enough >= 2**125:
        raise ScheduleError(
            f"{instance.topology.name}: latencies, bandwidths and size need more than 128 bits in exact "
            f"arithmetic; round them"
        )
    # what could carry every job is no cut: clipped, so that sums stay within 128 bits
    clipped = WideArray.of([min(c, enough) for c in capacity])
    status, found, failure = run_core(
        "bfb cuts", lambda control: core.bfb_cuts(instance.in_links, step, clipped, Wide.of(units), control)
    )
    if status == VIOLATED:
        raise unreachable(instance.topology, *failure)
    assert status == OK, status
    cuts = CutJobs(*found)
    parts = np.split(cuts.links, cuts.offset[1:-1])
    return [(tuple(part.tolist()), int(count)) for part, count in zip(parts, cuts.jobs, strict=False)]


def time_of_cut(problem: StepProblem, links: Sequence[int], jobs: int) -> Fraction:
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


def integral_capacities(problem: StepProblem, time: Fraction, chunks: int) -> list[int]:
    """Chunks that each in-link carries within a time; never more than there are."""
    return [_chunks_of_link(problem, e, time, chunks) for e in range(len(problem.latency_ns))]


def _chunks_of_link(problem: StepProblem, e: int, time: Fraction, chunks: int) -> int:
    p, q, shard = time.numerator, time.denominator, problem.shard_bytes
    nanoseconds = max(0, _NANO * p - problem.latency_ns[e] * q)
    amount = nanoseconds * problem.bandwidth[e] * shard.denominator * chunks
    return min(problem.instance.n * chunks, amount // (_NANO * q * shard.numerator))


def _integral_time_of_cut(problem: StepProblem, links: Sequence[int], jobs: int, chunks: int) -> Fraction:
    """Least T at which the links together carry `jobs` shards in whole chunks."""
    chunk = problem.shard_bytes / chunks
    time = time_of_cut(problem, links, jobs)
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
