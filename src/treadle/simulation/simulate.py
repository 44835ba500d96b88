"""Simulation of a program at a size, by the chosen model."""

from __future__ import annotations

from treadle.errors import ScheduleError
from treadle.program.program import Program
from treadle.simulation.fluid import simulate_fluid
from treadle.simulation.messages import simulate_messages
from treadle.simulation.result import Simulation
from treadle.simulation.simulation_options import Sharing, SimulationOptions
from treadle.simulation.tasks import TaskGraph, task_graph
from treadle.topologies.topology import Topology
from treadle.watch import UNWATCHED, Watch

MAX_TASKS = 2**24
"""Of all slices: about 40 bytes and half a microsecond each."""


def simulate_program(
    topology: Topology,
    program: Program,
    size_bytes: int,
    options: SimulationOptions | None = None,
    *,
    with_binding: bool = False,
    watch: Watch = UNWATCHED,
) -> Simulation:
    """Simulate one size; `simulate_graph` saves preparing the program again for the next.

    Parameters
    ----------
    topology : Topology
        The fabric that the program was lowered for.
    program : Program
    size_bytes : int
        The larger per-rank buffer.
    options : SimulationOptions, optional
    with_binding : bool
        Keep what `critical_path` needs; not under fair sharing.
    watch : Watch

    Raises
    ------
    ScheduleError
        If the program deadlocks, does not fit the fabric, or has too many tasks.
    """
    graph = task_graph(topology, program)
    return simulate_graph(
        graph, size_bytes, options or SimulationOptions(), with_binding=with_binding, watch=watch
    )


def simulate_graph(
    graph: TaskGraph,
    size_bytes: int,
    options: SimulationOptions,
    *,
    with_binding: bool = False,
    watch: Watch = UNWATCHED,
) -> Simulation:
    """Simulate one size of a prepared program; see `simulate_program`."""
    total = graph.n_tasks * options.slices
    if total > MAX_TASKS:
        raise ScheduleError(
            f"simulation: {total} messages on links, at most {MAX_TASKS} are possible; use fewer slices"
        )
    if options.sharing is Sharing.FAIR:
        return simulate_fluid(graph, size_bytes, options, watch=watch)
    return simulate_messages(graph, size_bytes, options, with_binding=with_binding, watch=watch)
