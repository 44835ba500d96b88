"""Simulated times over a range of sizes, each with a good number of slices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from treadle.simulation.costs.cost_model import CostModel
from treadle.simulation.costs.link_classes import CLASSES
from treadle.simulation.costs.message_prices import protocol_options
from treadle.simulation.result import Simulation
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulation_options import LatencyModel, SimulationOptions
from treadle.simulation.tasks import TaskGraph
from treadle.watch import UNWATCHED, Watch

MAX_AUTO_SLICES = 64
MAX_AUTO_TASKS = 2**19
"""Tasks of one trial: a few tenths of a second of CPU time."""


class SliceLimit(StrEnum):
    """Why no more slices were tried, though one more doubling might have helped."""

    LEAST_SLICE = "least slice"
    """The smallest message would be cut into parts below the options' least."""
    MOST_SLICES = "most slices"
    """`MAX_AUTO_SLICES`."""
    MESSAGES = "messages"
    """`MAX_AUTO_TASKS`: a trial would take too long."""


@dataclass(frozen=True)
class SizedSimulation:
    """The simulation of one size.

    Parameters
    ----------
    simulation : Simulation
    limit : SliceLimit, optional
        What ended the search for a number of slices; None where more had not helped, or none were looked for.
    """

    simulation: Simulation
    limit: SliceLimit | None = None


def simulate_sizes(
    graph: TaskGraph,
    sizes: Sequence[int],
    options: SimulationOptions,
    *,
    auto_slices: bool = False,
    most_tasks: int | None = None,
    cost_model: CostModel | None = None,
    watch: Watch = UNWATCHED,
) -> Iterator[SizedSimulation]:
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
    most_tasks : int, optional
        See `best_slices`.
    cost_model : CostModel, optional
        What messages cost, in place of the options' alpha; each size by the protocol that is fastest, of
        those the first.
    watch : Watch

    Raises
    ------
    ScheduleError
        If a program deadlocks, or the options have latencies beside a cost model.

    Yields
    ------
    SizedSimulation
        For each size, in order.
    """
    variants = protocol_options(options, cost_model)
    for size in sizes:
        found = [
            best_slices(graph, size, variant, most_tasks=most_tasks, watch=watch)
            if auto_slices
            else SizedSimulation(simulate_graph(graph, size, variant, watch=watch))
            for variant in variants
        ]
        yield min(found, key=lambda one: one.simulation.time)


def best_slices(
    graph: TaskGraph,
    size_bytes: int,
    options: SimulationOptions,
    *,
    most_tasks: int | None = None,
    watch: Watch = UNWATCHED,
) -> SizedSimulation:
    """The fastest of 1, 2, 4, ... slices.

    Stops when two more doublings have not helped: latencies then outweigh what thinner slices save. Among
    equal times the fewest slices win. One slice is always tried. Where messages hold links for a time of
    their own, those of one step from a rank to another are tried as one too (`TaskGraph.bundled`).

    Parameters
    ----------
    graph : TaskGraph
    size_bytes : int
    options : SimulationOptions
    most_tasks : int, optional
        Of one trial; default `MAX_AUTO_TASKS`.
    watch : Watch
    """
    most_tasks = MAX_AUTO_TASKS if most_tasks is None else most_tasks
    apart = _fastest(graph, size_bytes, options, most_tasks, watch)
    if not _holds_links(options) or graph.bundled is graph:
        return apart
    together = _fastest(graph.bundled, size_bytes, options, most_tasks, watch)
    return together if together.simulation.time < apart.simulation.time else apart


def _holds_links(options: SimulationOptions) -> bool:
    """Whether a message holds a link for a time that does not depend on its size."""
    occupied = options.costs is not None and any(options.costs.of(one).occupancy_ns for one in CLASSES)
    return occupied or options.latency_model is LatencyModel.PER_MESSAGE


def _fastest(
    graph: TaskGraph, size_bytes: int, options: SimulationOptions, most_tasks: int, watch: Watch
) -> SizedSimulation:
    """The fastest number of slices of these tasks."""
    best: Simulation | None = None
    limit: SliceLimit | None = None
    slices, worse = 1, 0
    while worse < 2:
        found = simulate_graph(graph, size_bytes, replace(options, slices=slices), watch=watch)
        if best is None or found.time < best.time:
            best, worse = found, 0
        else:
            worse += 1
        slices *= 2
        limit = _limit(graph, size_bytes, options, slices, most_tasks)
        if limit is not None:
            break
    assert best is not None
    return SizedSimulation(best, limit if worse < 2 else None)


def slices_at_most(
    graph: TaskGraph, size_bytes: int, options: SimulationOptions, most_tasks: int | None = None
) -> int:
    """The most slices, a power of two, that a trial at a size may have; see `best_slices`."""
    slices, most = 1, MAX_AUTO_TASKS if most_tasks is None else most_tasks
    while _limit(graph, size_bytes, options, 2 * slices, most) is None:
        slices *= 2
    return slices


def _limit(
    graph: TaskGraph, size_bytes: int, options: SimulationOptions, slices: int, most_tasks: int
) -> SliceLimit | None:
    """What forbids so many slices, if anything."""
    smallest = int(graph.chunks[graph.resource >= 0].min(initial=graph.program.n_chunks))
    if smallest * size_bytes < options.least_slice_bytes * slices * graph.program.n_chunks:
        return SliceLimit.LEAST_SLICE
    if slices > MAX_AUTO_SLICES:
        return SliceLimit.MOST_SLICES
    return SliceLimit.MESSAGES if slices * graph.n_tasks > most_tasks else None
