"""Simulation message by message: a link carries one at a time, slice by slice."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, inf

import numpy as np

from treadle.arrays import frozen, sums_of
from treadle.engine import core, run_core
from treadle.errors import ScheduleError
from treadle.simulation.clock import Clock, TimedGraph, timed_graph
from treadle.simulation.core_values import TaskArrays, TaskTimes
from treadle.simulation.result import Simulation
from treadle.simulation.simulation_options import Sharing, SimulationOptions
from treadle.simulation.tasks import TaskGraph, deadlock_error

_ARRIVAL, _SLICE = 0, 1
_VIOLATED = 1
_NO_HORIZON = 2**63 - 1


def simulate_messages(
    graph: TaskGraph, size_bytes: int, options: SimulationOptions, *, with_binding: bool = False
) -> Simulation:
    """Run the tasks of a program on links that carry one message at a time (sharing FIFO or SLICE_ORDER).

    A link, or the port of a host with a cap, is never idle while a message waits for it. `options.sharing`
    decides which goes first; of messages that arrive together, the one of the lowest slice, step and
    operation number does. A message cuts through a switch or a host's port so that it never runs dry on the
    next link: behind a slower link it starts late enough to pass at full rate, so if a host's port is slower
    than its links, up to the time of a slice is lost. Links that become free together choose in the order of
    their numbers. `with_binding` records the task that each start waited for last.

    Times are 64-bit numbers of ticks, exact if some tick divides all durations, as for the catalogue's
    fabrics at usual sizes; otherwise each duration is rounded to 2**-61 of the sum of all durations. O(n log
    n) for n tasks. Raises ScheduleError if the program deadlocks, or its time exceeds 63 bits.
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
    """Return the time of `simulate_messages`, seconds; None once it is certain to reach a limit.

    A run stops when the longest path after a starting task, or the remaining work of its resource, ends at
    the limit or later (src/core/simulate/horizon.hpp). The limit must exceed the launch.
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
