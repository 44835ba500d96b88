"""Hierarchical all-to-all on fabrics of boxes beside the optimum and direct paths: a Markdown table.

Usage: python -m benchmarks.alltoall_boxes [FABRIC ...]
"""

from __future__ import annotations

import sys
import time

import numpy as np

from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall import optimal_rate
from treadle.synthesis.alltoall.baselines.equal_weight import EqualSplit
from treadle.synthesis.alltoall.steps.hierarchical import hierarchical_routes
from treadle.synthesis.alltoall.steps.relays import RelayPath
from treadle.synthesis.trees.baselines.boxes import find_boxes
from treadle.topologies import parse
from treadle.topologies.topology import Topology
from treadle.verification.routes.route_check import verify_routes

FABRICS = (
    "dgx_a100(2)",
    "dgx_a100(4)",
    "dgx_h100(4)",
    "dgx_h100(8)",
    "mi250(2)",
    "mi250(4)",
    "mi300x(4)",
    "dgx1_v100()",
    "rail_optimized(4)",
    "rail_optimized(8)",
    "rail_optimized(4, spines=4)",
    "rail_optimized(4, spines=4, oversubscription=4)",
    "pods(2, 2)",
    "pods(2, 2, oversubscription=4)",
    "leaf_spine(4, 4)",
    "leaf_spine(4, 4, oversubscription=4)",
    "fat_tree(4)",
)

HEADER = "| fabric | boxes | optimum | fewest hops | fastest | PXN | mixed | gap | relayed | layers | s |"


def uneven(topology: Topology, everyone: Collective) -> Collective:
    """Experts of unlike popularity: rank j gets 1 + 15/(1 + j) units of everyone, in shuffled order."""
    n = everyone.n_ranks
    popular = np.random.default_rng(0).permutation(n)
    demands = np.tile(1 + 15 // (1 + popular), (n, 1)).astype(np.int64)
    # boxes have favourites too
    for number, box in enumerate(find_boxes(topology, everyone)):
        demands[box[0]] *= 1 + 3 * (number % 2)
    return Collective(CollectiveKind.ALLTOALL, everyone.ranks, demands=Demands(demands))


def row(expression: str, collective: Collective, fabric: Topology) -> str:
    """One line of the table; algbw in GB/s, the others as shares of the optimum."""
    start = time.process_time()
    best = optimal_rate(fabric, collective, gap=1e-4, time_limit_s=20)
    optimum_s = time.process_time() - start
    units = collective.pair_demands.buffer_units
    hops = units / float((EqualSplit(fabric, collective).loads() / fabric.bandwidths).max())
    cells = [f"{hops / best.algbw:.3f}"]
    for ways in ((RelayPath.DIRECT,), (RelayPath.RELAY_BEFORE,), tuple(RelayPath)):
        start = time.process_time()
        found = hierarchical_routes(fabric, collective, ways=ways)
        seconds = time.process_time() - start
        assert verify_routes(fabric, collective, found.schedule, claimed_algbw=found.algbw).is_ok
        cells.append(f"{float(found.algbw) / best.algbw:.3f}")
    return " | ".join(
        [
            f"| `{expression}`",
            f"{len(found.boxes)} x {len(found.boxes[0])}",
            f"{best.algbw / 1e9:.3f}",
            *cells,
            f"{100 * found.gap:.2g} %",
            f"{100 * found.relayed:.0f} %",
            str(found.schedule.n_layers),
            f"{optimum_s:.1f} / {seconds:.1f} |",
        ]
    )


def main() -> None:
    """Print the tables for uniform and for uneven demands."""
    for title, demands in (("uniform", None), ("uneven", uneven)):
        print(f"\n{title}\n")
        print(HEADER)
        print("|---" * HEADER.count(" | ") + "|---|")
        for expression in sys.argv[1:] or FABRICS:
            fabric = parse(expression)
            everyone = on_all_ranks(fabric, CollectiveKind.ALLTOALL)
            collective = everyone if demands is None else demands(fabric, everyone)
            print(row(expression, collective, fabric), flush=True)


if __name__ == "__main__":
    main()
