"""Durations as whole numbers of ticks: exact where one tick measures them all."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.program.program import OperationKind
from treadle.simulation.costs.message_prices import Prices, prices
from treadle.simulation.simulation_options import Forwarding, LatencyModel, SimulationOptions
from treadle.simulation.tasks import Follows, TaskGraph

_NANOSECOND = Fraction(1, 10**9)
_HORIZON = 2**61
"""Ticks that all tasks of all slices may take one after the other; sums then fit 63 bits."""


@dataclass(frozen=True, eq=False)
class TimedGraph:
    """A task graph with durations for one size.

    Parameters
    ----------
    graph : TaskGraph
    tick_s : Fraction
        Seconds.
    is_exact : bool
        Every duration is a whole number of ticks; otherwise it is rounded to one.
    duration : array of int64, shape (tasks,)
        Time for which a task holds its resource, ticks.
    edge_shift : array of int64, shape (edges,)
        From the end of a task to the moment at which the next may begin: latency, less what may overlap.
    """

    graph: TaskGraph
    tick_s: Fraction
    is_exact: bool
    duration: Int64Array
    edge_shift: Int64Array


def timed_graph(graph: TaskGraph, size_bytes: int, options: SimulationOptions) -> TimedGraph:
    """Durations of all tasks for a size.

    Parameters
    ----------
    graph : TaskGraph
    size_bytes : int
        The larger per-rank buffer. A chunk is size / P bytes and a slice of it size / (P * slices), fractions
        of a byte included.
    options : SimulationOptions

    Raises
    ------
    ScheduleError
        If the size is negative.
    """
    if size_bytes < 0:
        raise ScheduleError(f"simulation: size {size_bytes} bytes, expected none or more")
    chunk_bytes = Fraction(size_bytes, graph.program.n_chunks * options.slices)
    priced = prices(graph, options)
    rates = _bandwidths(graph, priced, options)
    distinct, place = np.unique(rates, return_inverse=True)
    per_chunk = [chunk_bytes / rate if rate else Fraction(0) for rate in distinct.tolist()]
    held, delay = _latencies_ns(graph, priced, options)
    tick, is_exact = _tick(graph, per_chunk, place, held, delay, options.slices)
    if is_exact:
        cost = np.zeros(graph.n_tasks, dtype=np.int64)
        for number, seconds in enumerate(per_chunk):
            # the tick measures the messages, not always a chunk of them
            counts = graph.chunks[place == number]
            common = int(np.gcd.reduce(counts))
            cost[place == number] = counts // common * int(common * seconds / tick)
    else:
        seconds = np.array([float(seconds / tick) for seconds in per_chunk])
        cost = np.rint(graph.chunks * seconds[place]).astype(np.int64)
    nanosecond = _NANOSECOND / tick
    shift = _ticks(delay, nanosecond)
    source = graph.edge_source
    overlaps = graph.edge_kind == Follows.HOST
    if options.forwarding is Forwarding.CUT_THROUGH:
        overlaps |= graph.edge_kind == Follows.HOP
    overlap = np.minimum(cost[source], cost[graph.edge_target])
    shift = shift - np.where(overlaps, overlap, 0)
    return TimedGraph(graph, tick, is_exact, cost + _ticks(held, nanosecond), shift)


def _bandwidths(graph: TaskGraph, priced: Prices, options: SimulationOptions) -> Int64Array:
    """Bytes/s of each task; 0: takes no time."""
    rates = np.zeros(graph.n_tasks, dtype=np.int64)
    onto = graph.resource >= 0
    rates[onto] = priced.resource_bytes_per_s[graph.resource[onto]]
    adds = graph.program.operation_kind[graph.operation] == OperationKind.RECEIVE_REDUCE
    rates[adds] = options.reduction_bytes_per_s
    return rates


def _latencies_ns(
    graph: TaskGraph, priced: Prices, options: SimulationOptions
) -> tuple[Int64Array, Int64Array]:
    """Nanoseconds for which each task holds its resource, and that pass along each edge."""
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


def _tick(
    graph: TaskGraph,
    per_chunk: list[Fraction],
    place: Int64Array,
    held: Int64Array,
    delay: Int64Array,
    slices: int,
) -> tuple[Fraction, bool]:
    """Longest tick that measures all durations if the horizon has not too many of it, else a rounding one."""
    measure, total = Fraction(0), Fraction(0)
    for number, seconds in enumerate(per_chunk):
        counts = graph.chunks[place == number]
        measure = _common_measure(measure, int(np.gcd.reduce(counts)) * seconds)
        total += int(counts.sum()) * seconds
    for latencies in (held, delay):
        measure = _common_measure(measure, int(np.gcd.reduce(latencies, initial=0)) * _NANOSECOND)
        total += sum(map(int, latencies[latencies > 0])) * _NANOSECOND
    if not measure:
        return _NANOSECOND, True
    horizon = slices * total
    if horizon < _HORIZON * measure:
        return measure, True
    return horizon / _HORIZON, False


def _common_measure(one: Fraction, other: Fraction) -> Fraction:
    """Greatest number of which both are multiples."""
    denominator = one.denominator * other.denominator
    return Fraction(gcd(one.numerator * other.denominator, other.numerator * one.denominator), denominator)


def _ticks(nanoseconds: Int64Array, per_nanosecond: Fraction) -> Int64Array:
    if per_nanosecond.denominator == 1 and per_nanosecond < 2**62:
        return nanoseconds * int(per_nanosecond)
    # the measure divides every latency, so in exact mode this is exact, too
    distinct, place = np.unique(nanoseconds, return_inverse=True)
    ticks = np.array([round(int(value) * per_nanosecond) for value in distinct], dtype=np.int64)
    result: Int64Array = ticks[place.reshape(-1)]
    return result
