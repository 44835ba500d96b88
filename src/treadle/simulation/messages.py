"""Simulation message by message: links serve one at a time, slice by slice."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, inf

import numpy as np

from treadle.arrays import frozen, sums_of
from treadle.engine import core, run_core
from treadle.errors import ScheduleError
from treadle.simulation.clock import Clock, TimedGraph, timed_graph
from treadle.simulation.core_values import TaskArrays, TaskTimes
from treadle.simulation.deadlock import deadlock_error
from treadle.simulation.result import Simulation
from treadle.simulation.simulation_options import Sharing, SimulationOptions
from treadle.simulation.tasks import TaskGraph

_ARRIVAL, _SLICE = 0, 1
_VIOLATED = 1
_NO_HORIZON = 2**63 - 1


def simulate_messages(
    graph: TaskGraph, size_bytes: int, options: SimulationOptions, *, with_binding: bool = False
) -> Simulation:
    """Run the tasks of a program on links that serve one message at a time.

    A link (and a capped host's port) is never idle while a message waits for it. Whose turn it is
    `options.sharing` says; where messages come at once, the one of the lowest slice, step and operation
    number goes first. A message cuts through a switch or a host's port so that it never runs dry on the next
    link: behind a slower one it starts late enough to pass at full rate, so that where a host's port is
    slower than its links up to the time of a slice is lost. Links that become free at one time choose in the
    order of their numbers.

    Parameters
    ----------
    graph : TaskGraph
    size_bytes : int
    options : SimulationOptions
        FIFO or SLICE_ORDER.
    with_binding : bool
        Keep what each task waited for.

    Raises
    ------
    ScheduleError
        If the program deadlocks, or takes longer than 63 bits can tell.

    Notes
    -----
    Deterministic. Times are 64-bit numbers of ticks, of a length that measures all durations exactly if one
    does (it does for the catalogue's fabrics at usual sizes); otherwise each duration is rounded to 2**-61 of
    the time that all tasks would take one after the other. O(n log n) for n tasks.
    """
    timed = timed_graph(graph, size_bytes, options)
    status, times = _run(timed, options, with_binding)
    _require_an_end(timed, options, status, times)
    shape = (options.slices, graph.n_tasks)
    onto = graph.resource >= 0
    busy = sums_of(graph.n_resources, graph.resource[onto], timed.duration[onto] * options.slices)
    return Simulation(
        graph,
        size_bytes,
        options,
        timed.tick_s,
        timed.is_exact,
        times.finish,
        times.last,
        times.start.reshape(shape),
        timed.duration,
        busy,
        frozen(times.binding.reshape(shape if with_binding else (0, 0)), np.int64),
    )


def seconds_below(
    clock: Clock, size_bytes: int, options: SimulationOptions, limit_s: float = inf
) -> float | None:
    """What `simulate_messages` has for the time; None as soon as that is certain to be no less than a limit.

    Parameters
    ----------
    clock : Clock
        Of the graph under these options.
    size_bytes : int
    options : SimulationOptions
        FIFO or SLICE_ORDER.
    limit_s : float
        Seconds, more than the launch.

    Raises
    ------
    ScheduleError
        As `simulate_messages`.

    Notes
    -----
    A run is given up when the longest path behind a task that starts, or what its resource has still to
    serve, ends at the limit or later (src/core/simulate/horizon.hpp). What is faster is simulated to its end.
    """
    timed = clock.at(size_bytes, options.slices)
    launch = Fraction(options.costs.launch_ns if options.costs else 0, 10**9)
    horizon = _NO_HORIZON if limit_s == inf else ceil((Fraction(limit_s) - launch) / timed.tick_s)
    status, times = _run(timed, options, False, min(horizon, _NO_HORIZON))
    _require_an_end(timed, options, status, times)
    if times.is_beyond:
        return None
    seconds = float(launch + times.finish * timed.tick_s)
    return seconds if seconds < limit_s else None


def _require_an_end(timed: TimedGraph, options: SimulationOptions, status: int, times: TaskTimes) -> None:
    if status == _VIOLATED:
        raise ScheduleError("simulation: times beyond 63 bits; use a smaller size or fewer slices")
    total = timed.graph.n_tasks * options.slices
    if times.done < total and not times.is_beyond:
        raise deadlock_error(timed.graph, times.start, total - times.done)


def _run(
    timed: TimedGraph, options: SimulationOptions, with_binding: bool, horizon: int = _NO_HORIZON
) -> tuple[int, TaskTimes]:
    graph = timed.graph
    order = _ARRIVAL if options.sharing is Sharing.FIFO else _SLICE
    tasks = TaskArrays(
        n_resources=graph.n_resources,
        resource=graph.resource,
        duration=timed.duration,
        edge_offset=graph.edge_offset,
        edge_target=graph.edge_target,
        edge_shift=timed.edge_shift,
    )
    status, times = run_core(
        "simulate",
        lambda control: core.simulate_tasks(tasks, options.slices, order, with_binding, horizon, control),
    )
    return status, TaskTimes(*times)
