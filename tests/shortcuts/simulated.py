"""A program simulated at one size, prepared for that size alone."""

from __future__ import annotations

from treadle.program.program import Program
from treadle.simulation.result import Simulation
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.tasks import task_graph
from treadle.topologies.topology import Topology


def simulate_program(
    topology: Topology,
    program: Program,
    size_bytes: int,
    options: SimulationOptions | None = None,
    *,
    with_binding: bool = False,
) -> Simulation:
    """What `simulate_graph` says of one size."""
    graph = task_graph(topology, program)
    return simulate_graph(graph, size_bytes, options or SimulationOptions(), with_binding=with_binding)
