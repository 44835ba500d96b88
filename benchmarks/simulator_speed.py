"""CPU seconds for a million messages: the allgather of 128 nodes along trees, in 64 slices.

Run ``python -m benchmarks.simulator_speed``.
"""

from __future__ import annotations

import time

from treadle import planning
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulation_options import Sharing, SimulationOptions
from treadle.simulation.tasks import task_graph

FABRIC = 'torus(8, 4, 4, bandwidth="25GB/s")'
SIZE_BYTES = 16 * 2**20


def main() -> None:
    """Print a line for each way of sharing links and number of slices."""
    plan = planning.solve(FABRIC, "allgather", algorithm="forestcoll").plan
    start = time.process_time()
    graph = task_graph(plan.topology, planning.program_of(plan, SIZE_BYTES))
    print(f"program and graph of {graph.n_tasks} tasks: {time.process_time() - start:.2f} s")
    for sharing in (Sharing.FIFO, Sharing.SLICE_ORDER):
        for slices in (1, 8, 64):
            options = SimulationOptions(slices=slices, sharing=sharing)
            start = time.process_time()
            found = simulate_graph(graph, SIZE_BYTES, options)
            seconds = time.process_time() - start
            share = float(SIZE_BYTES / plan.algbw / found.time)
            print(
                f"{sharing:12} {slices:3} slices {found.n_transfers:8} messages {seconds:6.3f} s CPU; "
                f"simulated {found.time_s * 1e6:.2f} us, {share:.1%} of the bound"
            )


if __name__ == "__main__":
    main()
