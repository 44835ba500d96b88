"""Simulation of a range of sizes, each with its best number of slices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from treadle.simulation.costs.cost_model import CostModel
from treadle.simulation.costs.message_prices import protocol_options
from treadle.simulation.result import Simulation
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.slice_search import MAX_AUTO_TASKS, SliceLimit, SliceSearch, slice_limit
from treadle.simulation.tasks import TaskGraph


@dataclass(frozen=True)
class SizedSimulation:
    """The simulation of one size, and the limit that ended the search for a number of slices.

    The limit is None if more slices did not help, or without a search.
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
    """Simulate sizes (bytes of the larger per-rank buffer) in order.

    Parameters
    ----------
    auto_slices : bool
        Use the best number of slices that `SliceSearch` finds, not the options'.
    most_tasks : int, optional
        Largest number of tasks of a trial; default `MAX_AUTO_TASKS`.
    cost_model : CostModel, optional
        Replaces the options' alpha; each size uses the fastest protocol, the first of equally fast ones.

    Raises
    ------
    ScheduleError
        If a program deadlocks, or both the options and a cost model have latencies.
    """
    variants = protocol_options(options, cost_model)
    most_tasks = MAX_AUTO_TASKS if most_tasks is None else most_tasks
    search = SliceSearch(graph, variants, most_tasks)
    for size in sizes:
        if not auto_slices:
            found = [simulate_graph(graph, size, variant) for variant in variants]
            yield SizedSimulation(min(found, key=lambda one: one.time))
            continue
        best = search.fastest(size)
        assert best is not None
        tasks, variant = search.graphs[best.form], variants[best.protocol]
        simulation = simulate_graph(tasks, size, replace(variant, slices=best.slices))
        # more slices were limited if this holds for twice or four times as many
        doubled = (slice_limit(tasks, size, variant, best.slices * more, most_tasks) for more in (2, 4))
        yield SizedSimulation(simulation, next((limit for limit in doubled if limit is not None), None))


def best_slices(
    graph: TaskGraph, size_bytes: int, options: SimulationOptions, *, most_tasks: int | None = None
) -> SizedSimulation:
    """Return the fastest of 1, 2, 4, ... slices, with separate or merged messages; see `SliceSearch.fastest`.

    A trial has at most `most_tasks` tasks (default `MAX_AUTO_TASKS`), but one slice is always tried.
    """
    return next(simulate_sizes(graph, [size_bytes], options, auto_slices=True, most_tasks=most_tasks))
