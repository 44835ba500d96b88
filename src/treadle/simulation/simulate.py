"""Simulation of a program at a size, under the chosen sharing."""

from __future__ import annotations

from treadle.errors import ScheduleError
from treadle.simulation.fluid import simulate_fluid
from treadle.simulation.messages import simulate_messages
from treadle.simulation.result import Simulation
from treadle.simulation.simulation_options import Sharing, SimulationOptions
from treadle.simulation.tasks import TaskGraph

MAX_TASKS = 2**24
"""Largest number of tasks of all slices: about 40 bytes and half a microsecond each."""


def simulate_graph(
    graph: TaskGraph, size_bytes: int, options: SimulationOptions, *, with_binding: bool = False
) -> Simulation:
    """Simulate one size of a prepared program.

    Parameters
    ----------
    graph : TaskGraph
        Tasks of the program on the fabric that it was lowered for.
    size_bytes : int
        The larger per-rank buffer.
    options : SimulationOptions
    with_binding : bool
        Record waits for `critical_path`; not under fair sharing.

    Raises
    ------
    ScheduleError
        If the program deadlocks or has too many tasks.
    """
    total = graph.n_tasks * options.slices
    if total > MAX_TASKS:
        raise ScheduleError(
            f"simulation: {total} messages on links, at most {MAX_TASKS} are possible; use fewer slices"
        )
    if options.sharing is Sharing.FAIR:
        return simulate_fluid(graph, size_bytes, options)
    return simulate_messages(graph, size_bytes, options, with_binding=with_binding)
