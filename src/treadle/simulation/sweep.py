"""Simulated times over a range of sizes, each with a good number of slices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from treadle.engine import Progress
from treadle.simulation.options import SimulationOptions
from treadle.simulation.result import Simulation
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.tasks import TaskGraph

MAX_AUTO_SLICES = 64
MAX_AUTO_TASKS = 2**19
"""Tasks of one trial: a few tenths of a second of CPU time."""


def simulate_sizes(
    graph: TaskGraph,
    sizes: Sequence[int],
    options: SimulationOptions,
    *,
    auto_slices: bool = False,
    progress: Progress | None = None,
) -> Iterator[Simulation]:
    """Simulate sizes one after another.

    Parameters
    ----------
    graph : TaskGraph
        From `task_graph`.
    sizes : sequence of int
        Bytes of the larger per-rank buffer.
    options : SimulationOptions
    auto_slices : bool
        Take the best number of slices that `best_slices` finds, in place of the options'.
    progress : callable, optional

    Yields
    ------
    Simulation
        For each size, in order.
    """
    for size in sizes:
        if auto_slices:
            yield best_slices(graph, size, options, progress=progress)
        else:
            yield simulate_graph(graph, size, options, progress=progress)


def best_slices(
    graph: TaskGraph, size_bytes: int, options: SimulationOptions, *, progress: Progress | None = None
) -> Simulation:
    """The fastest of 1, 2, 4, ... slices, up to `MAX_AUTO_SLICES` and `MAX_AUTO_TASKS`.

    Stops when two more doublings have not helped: latencies then outweigh what thinner slices save. Among
    equal times the fewest slices win.
    """
    best: Simulation | None = None
    slices, worse = 1, 0
    while slices == 1 or (
        worse < 2 and slices <= MAX_AUTO_SLICES and slices * graph.n_tasks <= MAX_AUTO_TASKS
    ):
        found = simulate_graph(graph, size_bytes, replace(options, slices=slices), progress=progress)
        if best is None or found.time < best.time:
            best, worse = found, 0
        else:
            worse += 1
        slices *= 2
    assert best is not None
    return best
