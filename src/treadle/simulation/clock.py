"""Durations as integral numbers of ticks: exact if some tick divides them all."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.program.program import OperationKind
from treadle.simulation.costs.message_prices import Prices, prices
from treadle.simulation.simulation_options import Forwarding, LatencyModel, SimulationOptions
from treadle.simulation.tasks import Follows, TaskGraph

_NANOSECOND = Fraction(1, 10**9)
_HORIZON = 2**61
"""Largest total duration of all tasks of all slices, in ticks; sums then fit 63 bits."""


@dataclass(frozen=True, eq=False)
class TimedGraph:
    """A task graph with durations for one size.

    Parameters
    ----------
    graph : TaskGraph
    tick_s : Fraction
        Seconds.
    is_exact : bool
        Every duration is an integral number of ticks; otherwise durations are rounded.
    duration : array of int64, shape (tasks,)
        Time for which a task holds its resource, ticks.
    edge_shift : array of int64, shape (edges,)
        Ticks from the end of a task until the next may begin: latency, minus the time that may overlap.
    """

    graph: TaskGraph
    tick_s: Fraction
    is_exact: bool
    duration: Int64Array
    edge_shift: Int64Array


class Clock:
    """Costs of a graph's tasks under options, except their number of slices, for all sizes."""

    def __init__(self, graph: TaskGraph, options: SimulationOptions) -> None:
        self.graph = graph
        priced = prices(graph, options)
        # bytes/s of each task; 0 takes no time
        rates = np.zeros(graph.n_tasks, dtype=np.int64)
        onto = graph.resource >= 0
        rates[onto] = priced.resource_bytes_per_s[graph.resource[onto]]
        adds = graph.program.operation_kind[graph.operation] == OperationKind.RECEIVE_REDUCE
        rates[adds] = options.reduction_bytes_per_s
        distinct, self._place = np.unique(rates, return_inverse=True)
        self._rates: list[int] = distinct.tolist()
        held, delay = _latencies_ns(graph, priced, options)
        self._held, self._delay = _Nanoseconds(held), _Nanoseconds(delay)
        of_rate = [graph.chunks[self._place == number] for number in range(len(self._rates))]
        self._common = [int(np.gcd.reduce(counts)) for counts in of_rate]
        self._counts = [int(counts.sum()) for counts in of_rate]
        # the tick divides the time of each message, not always that of each chunk
        self._messages = graph.chunks // np.maximum(np.array(self._common, dtype=np.int64), 1)[self._place]
        overlaps = graph.edge_kind == Follows.HOST
        if options.forwarding is Forwarding.CUT_THROUGH:
            overlaps |= graph.edge_kind == Follows.HOP
        self._overlapping = np.flatnonzero(overlaps)
        self._before = graph.edge_source[self._overlapping]
        self._behind = graph.edge_target[self._overlapping]

    def at(self, size_bytes: int, slices: int) -> TimedGraph:
        """Return the durations of all tasks for a size and a number of slices; see `timed_graph`."""
        chunk_bytes = Fraction(size_bytes, self.graph.program.n_chunks * slices)
        per_chunk = [chunk_bytes / rate if rate else Fraction(0) for rate in self._rates]
        tick, is_exact = self._tick(per_chunk, slices)
        if is_exact:
            each = [
                int(common * seconds / tick) for common, seconds in zip(self._common, per_chunk, strict=True)
            ]
            cost = self._messages * np.array(each, dtype=np.int64)[self._place]
        else:
            ticks = np.array([float(seconds / tick) for seconds in per_chunk])
            cost = np.rint(self.graph.chunks * ticks[self._place]).astype(np.int64)
        nanosecond = _NANOSECOND / tick
        shift = self._delay.in_ticks(nanosecond)
        shift[self._overlapping] -= np.minimum(cost[self._before], cost[self._behind])
        return TimedGraph(self.graph, tick, is_exact, cost + self._held.in_ticks(nanosecond), shift)

    def _tick(self, per_chunk: list[Fraction], slices: int) -> tuple[Fraction, bool]:
        """Return the longest tick that divides all durations if it is long enough, else a rounding one."""
        times = [common * seconds for common, seconds in zip(self._common, per_chunk, strict=True)]
        times += [latencies.common * _NANOSECOND for latencies in (self._held, self._delay)]
        scale = lcm(*(time.denominator for time in times))
        measure = Fraction(gcd(*(int(time * scale) for time in times)), scale)
        if not measure:
            return _NANOSECOND, True
        moved = sum(count * seconds for count, seconds in zip(self._counts, per_chunk, strict=True))
        horizon = slices * (moved + (self._held.total + self._delay.total) * _NANOSECOND)
        if horizon < _HORIZON * measure:
            return measure, True
        return horizon / _HORIZON, False


def timed_graph(graph: TaskGraph, size_bytes: int, options: SimulationOptions) -> TimedGraph:
    """Return the durations of all tasks for a size, the larger per-rank buffer.

    A chunk has size / P bytes, and a slice of it size / (P * slices), fractions of a byte included.
    """
    if size_bytes < 0:
        raise ScheduleError(f"simulation: size {size_bytes} bytes, expected none or more")
    return Clock(graph, options).at(size_bytes, options.slices)


def _latencies_ns(
    graph: TaskGraph, priced: Prices, options: SimulationOptions
) -> tuple[Int64Array, Int64Array]:
    """Return the ns for which each task holds its resource, and the latency of each edge, ns."""
    latency = np.zeros(graph.n_tasks, dtype=np.int64)
    onto = graph.resource >= 0
    latency[onto] = priced.resource_latency_ns[graph.resource[onto]]
    occupied = priced.occupancy_ns[graph.operation] * graph.pays_alpha
    if options.latency_model is LatencyModel.PER_MESSAGE:
        held = latency + occupied + priced.alpha_ns[graph.operation] * graph.pays_alpha
        return held.astype(np.int64), np.zeros(len(graph.edge_target), dtype=np.int64)
    delay = np.where(graph.edge_kind == Follows.WAIT, 0, latency[graph.edge_source])
    alpha = priced.alpha_ns[graph.operation[graph.edge_source]]
    delay += np.where(graph.edge_kind == Follows.DELIVERY, alpha, 0)
    return occupied.astype(np.int64), delay.astype(np.int64)


class _Nanoseconds:
    """Latencies, to be converted to ticks of several lengths."""

    def __init__(self, values: Int64Array) -> None:
        self.values = values
        self._distinct, place = np.unique(values, return_inverse=True)
        self._place = place.reshape(-1)
        self.common = int(np.gcd.reduce(self._distinct, initial=0))
        counts = np.bincount(self._place, minlength=len(self._distinct)).tolist()
        self.total = sum(
            count * value for count, value in zip(counts, self._distinct.tolist(), strict=True) if value > 0
        )

    def in_ticks(self, per_nanosecond: Fraction) -> Int64Array:
        """Return a new array of ticks, rounded if the tick does not divide them all."""
        if per_nanosecond.denominator == 1 and per_nanosecond < 2**62:
            return self.values * int(per_nanosecond)
        # an exact tick divides every latency, so nothing is rounded then
        ticks = np.array([round(value * per_nanosecond) for value in self._distinct.tolist()], dtype=np.int64)
        result: Int64Array = ticks[self._place]
        return result
