"""Theoretical allgather algbw of every scheduler at 2 to 128 boxes: the lower row of figure 4.14.

Run ``python benchmarks/figure_4_14.py [--max-ranks N]``. The figure has TACCL, TE-CCL and SyCCL too, which
need MILP solvers and hours; they are not run here. Its curves are published without numbers: none is quoted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from treadle.planning.solving.schedulers import find_scheduler
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest_cost import algbw
from treadle.synthesis.trees.optimality import optimum
from treadle.topologies.catalogue.platforms import dgx_a100, dgx_a100_flat, mi250
from treadle.topologies.topology import Topology

PLATFORMS: tuple[tuple[Callable[[int], Topology], int], ...] = (
    (dgx_a100_flat, 8),
    (dgx_a100, 8),
    (mi250, 16),
)
BOXES = (2, 4, 8, 16, 32, 64, 128)
SCHEDULERS = ("multitree", "ring", "hierarchical-ring", "halving-doubling")


def measure(topology: Topology, name: str) -> tuple[float, float]:
    """(GB/s, CPU seconds) of one baseline."""
    start = time.process_time()
    schedule = find_scheduler(name).load()(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))
    return float(algbw(topology, schedule)) / 1e9, time.process_time() - start


def cell(topology: Topology, name: str) -> str:
    """One table cell."""
    rate, seconds = measure(topology, name)
    return f"{rate:8.1f} {seconds:5.1f}s"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-ranks", type=int, default=1024)
    limit = parser.parse_args().max_ranks
    print(
        f"allgather algbw in GB/s, CPU seconds\n{'':24}{'optimum':>9}"
        + "".join(f"{n:>19}" for n in SCHEDULERS)
    )
    for platform, gpus in PLATFORMS:
        for boxes in BOXES:
            if boxes * gpus > limit:
                continue
            topology = platform(boxes)
            best = optimum(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER)).algbw
            cells = "".join(f"{cell(topology, name):>19}" for name in SCHEDULERS)
            print(f"{topology.name:24}{float(best) / 1e9:9.1f}{cells}", flush=True)


if __name__ == "__main__":
    main()
