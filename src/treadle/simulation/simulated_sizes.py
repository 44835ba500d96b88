"""Simulated times over a range of sizes, each with a good number of slices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from treadle.simulation.costs.cost_model import CostModel
from treadle.simulation.costs.message_prices import protocol_options
from treadle.simulation.result import Simulation
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.slice_limits import MAX_AUTO_TASKS, SliceLimit, slice_limit
from treadle.simulation.slice_search import SliceSearch
from treadle.simulation.tasks import TaskGraph


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
        Take the best number of slices that `SliceSearch` finds, in place of the options'.
    most_tasks : int, optional
        Of one trial; default `MAX_AUTO_TASKS`.
    cost_model : CostModel, optional
        What messages cost, in place of the options' alpha; each size by the protocol that is fastest, of
        those the first.

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
    most_tasks = MAX_AUTO_TASKS if most_tasks is None else most_tasks
    search = SliceSearch(graph, variants, most_tasks)
    for size in sizes:
        if auto_slices:
            yield _searched(search, size, most_tasks)
            continue
        found = [simulate_graph(graph, size, variant) for variant in variants]
        yield SizedSimulation(min(found, key=lambda one: one.time))


def best_slices(
    graph: TaskGraph, size_bytes: int, options: SimulationOptions, *, most_tasks: int | None = None
) -> SizedSimulation:
    """The fastest of 1, 2, 4, ... slices, messages of a step one by one or as one; see `SliceSearch.fastest`.

    Parameters
    ----------
    graph : TaskGraph
    size_bytes : int
    options : SimulationOptions
    most_tasks : int, optional
        Of one trial; default `MAX_AUTO_TASKS`. One slice is always tried.
    """
    most_tasks = MAX_AUTO_TASKS if most_tasks is None else most_tasks
    return _searched(SliceSearch(graph, (options,), most_tasks), size_bytes, most_tasks)


def _searched(search: SliceSearch, size_bytes: int, most_tasks: int) -> SizedSimulation:
    """The simulation of the fastest trial, and what kept more slices from being tried, if they might help."""
    best = search.fastest(size_bytes)
    assert best is not None
    tasks, options = search.graphs[best.form], search.variants[best.protocol]
    simulation = simulate_graph(tasks, size_bytes, replace(options, slices=best.slices))
    doubled = [slice_limit(tasks, size_bytes, options, best.slices * more, most_tasks) for more in (2, 4)]
    return SizedSimulation(simulation, next((limit for limit in doubled if limit is not None), None))
