"""Chunk-level simulation of programs: messages queue up at links, slice by slice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array, frozen
from treadle.engine import Progress, core, run_watched
from treadle.errors import ScheduleError
from treadle.lowering.program import Program
from treadle.runtime.order import describe
from treadle.simulation.clock import TimedGraph, timed_graph
from treadle.simulation.options import SimulationOptions
from treadle.simulation.tasks import TaskGraph, task_graph
from treadle.topologies.topology import Topology

MAX_TASKS = 2**27
"""Of all slices: 28 bytes each while it runs."""

_VIOLATED, _CANCELLED = 1, 2


@dataclass(frozen=True, eq=False)
class ChunkSimulation:
    """What happened.

    Parameters
    ----------
    timed : TimedGraph
        The tasks of a slice, their durations and the length of a tick.
    size_bytes : int
    options : SimulationOptions
    finish : int
        End of the last task, ticks.
    last : int
        Number of a task that ends then: slice * tasks + task.
    start : array of int64, shape (slices, tasks)
        When each task began to hold its resource, ticks.
    binding : array of int64, shape (slices, tasks), or (0, 0)
        Number of the task that each start waited for last, -1 for none; empty unless asked for.
    """

    timed: TimedGraph
    size_bytes: int
    options: SimulationOptions
    finish: int
    last: int
    start: Int64Array
    binding: Int64Array

    @property
    def time(self) -> Fraction:
        """Seconds; exactly the model's if `timed.is_exact`."""
        return self.finish * self.timed.tick_s

    @property
    def time_s(self) -> float:
        """Seconds."""
        return float(self.time)

    @property
    def algbw_bytes_per_s(self) -> float:
        """Size over time; 0 where no time passes."""
        return self.size_bytes / self.time_s if self.finish else 0.0

    @property
    def n_sends(self) -> int:
        """Messages over links, slices counted apart."""
        return int(np.count_nonzero(self.timed.graph.resource >= 0)) * self.options.slices

    def busy(self) -> Int64Array:
        """Ticks for which each resource was held, shape (resources,)."""
        graph = self.timed.graph
        onto = graph.resource >= 0
        busy = np.zeros(graph.n_resources, dtype=np.int64)
        np.add.at(busy, graph.resource[onto], self.timed.duration[onto] * self.options.slices)
        return busy

    def utilisation(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """Share of the time for which each resource was held, shape (resources,)."""
        return self.busy() / max(1, self.finish)

    def operation_spans(self) -> tuple[Int64Array, Int64Array]:
        """First start and last end of each operation of the program, ticks, shape (operations,) each.

        A send ends when its last byte has left the last link of its path; latencies that delay a message
        without holding a link come after.
        """
        graph = self.timed.graph
        begin = np.full(graph.program.n_operations, np.iinfo(np.int64).max, dtype=np.int64)
        end = np.zeros(graph.program.n_operations, dtype=np.int64)
        np.minimum.at(begin, graph.operation, self.start.min(axis=0))
        np.maximum.at(end, graph.operation, self.start.max(axis=0) + self.timed.duration)
        return begin, end


def simulate_program(
    topology: Topology,
    program: Program,
    size_bytes: int,
    options: SimulationOptions | None = None,
    *,
    with_binding: bool = False,
    progress: Progress | None = None,
) -> ChunkSimulation:
    """Simulate one size; see `simulate_graph`, which saves preparing the program for each size.

    Parameters
    ----------
    topology : Topology
        The fabric that the program was lowered for.
    program : Program
    size_bytes : int
        The larger per-rank buffer.
    options : SimulationOptions, optional
    with_binding : bool
        Keep what `critical_path` needs.
    progress : callable, optional
    """
    options = options or SimulationOptions()
    return simulate_graph(
        task_graph(topology, program), size_bytes, options, with_binding=with_binding, progress=progress
    )


def simulate_graph(
    graph: TaskGraph,
    size_bytes: int,
    options: SimulationOptions,
    *,
    with_binding: bool = False,
    progress: Progress | None = None,
) -> ChunkSimulation:
    """Run the tasks of a program on FIFO links.

    A link (and a capped host's port) serves one message at a time, in the order in which they come to it;
    of those that come at once, the one of the lowest slice, step and operation number goes first.

    Returns
    -------
    ChunkSimulation

    Raises
    ------
    ScheduleError
        If the program deadlocks, or has too many tasks.

    Notes
    -----
    Deterministic. Times are 64-bit numbers of ticks, of a length that measures all durations exactly if one
    does (`TimedGraph.is_exact`; it does for the catalogue's fabrics); otherwise each duration is rounded to
    2**-61 of the time that all tasks would take one after the other. O(n log n) for n tasks.
    """
    total = graph.n_tasks * options.slices
    if total > MAX_TASKS:
        raise ScheduleError(
            f"simulation: {total} messages on links, at most {MAX_TASKS}; use fewer slices (--slices)"
        )
    timed = timed_graph(graph, size_bytes, options)
    status, ends, start, binding = _run(timed, options.slices, with_binding, progress)
    if status == _VIOLATED:
        raise ScheduleError("simulation: times beyond 63 bits; use a smaller size or fewer slices")
    finish, done, last = (int(value) for value in ends)
    if done < total:
        stuck = int(graph.operation[np.flatnonzero(start < 0)[0] % graph.n_tasks])
        raise ScheduleError(
            f"simulation: deadlock: {total - done} of {total} messages and operations never start, the first "
            f"is {describe(graph.program, stuck)}; `treadle verify` checks the plan"
        )
    shape = (options.slices, graph.n_tasks)
    return ChunkSimulation(
        timed,
        size_bytes,
        options,
        finish,
        last,
        frozen(start.reshape(shape), np.int64),
        frozen(binding.reshape(shape if with_binding else (0, 0)), np.int64),
    )


_Outcome = tuple[int, Int64Array, Int64Array, Int64Array]


def _run(timed: TimedGraph, slices: int, with_binding: bool, progress: Progress | None) -> _Outcome:
    graph = timed.graph

    def call(control: Int64Array) -> _Outcome:
        return core.simulate_tasks(
            graph.resource,
            timed.duration,
            graph.edge_offset,
            graph.edge_target,
            timed.edge_shift,
            graph.n_resources,
            slices,
            with_binding,
            control,
        )

    run: Callable[..., _Outcome] = run_watched
    return run("simulate", call, progress=progress)
