"""Baselines of all-to-all over the optimum: time * F on fabrics like those of the paper's figures.

Run ``python -m benchmarks.alltoall_baselines [--max-ranks N] [TOPOLOGY ...]``. "Time" is that of the largest
size, latencies left out: the busiest link for routes, the sum over steps of the busiest link for steps.
"""

from __future__ import annotations

import argparse
import time

from treadle.errors import TreadleError
from treadle.schedulers.schedulers import find_scheduler
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.exchange_cost import exchange_algbw
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall import optimal_rate
from treadle.synthesis.alltoall.baselines import route_algbw
from treadle.synthesis.alltoall.rate.bisection import best_cut
from treadle.synthesis.alltoall.rate.fleischer import fleischer_rate
from treadle.topologies import parse
from treadle.topologies.topology import Topology

BASELINES = (
    *("ewsp", "sssp", "dor", "native", "ilp-disjoint", "ilp-shortest", "pairwise"),
    *("bruck-exchange", "hypercube-exchange", "mesh-exchange", "torus-exchange"),
)
FABRICS = (
    "complete_bipartite(4, 4)",
    "hypercube(3)",
    "twisted_hypercube(3)",
    "torus(3, 3, 3)",
    "torus(8, 8)",
    "hypercube(6)",
    "generalized_kautz(4, 16)",
    "generalized_kautz(4, 27)",
    "generalized_kautz(4, 64)",
    "jellyfish(64, 4)",
    "xpander(4, 16)",
    "generalized_kautz(4, 128)",
)


def baseline(fabric: Topology, name: str, rate: float) -> str:
    """One table cell: time over the optimum, steps or layers, CPU seconds."""
    everyone = on_all_ranks(fabric, CollectiveKind.ALLTOALL)
    start = time.process_time()
    try:
        schedule = find_scheduler(name).load()(fabric, everyone)
    except TreadleError:
        return f"{'-':>8}"
    seconds = time.process_time() - start
    if isinstance(schedule, ExchangeSchedule):
        algbw, extent = exchange_algbw(fabric, everyone, schedule), f"{schedule.n_steps} steps"
    else:
        algbw, extent = route_algbw(fabric, everyone, schedule), f"{schedule.n_layers} layers"
    return f"{rate * fabric.n_nodes / float(algbw):8.3f} {extent:>10} {seconds:6.2f}s"


def main() -> None:
    """Print a block per fabric."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-ranks", type=int, default=64)
    parser.add_argument("topologies", nargs="*")
    arguments = parser.parse_args()
    for name in arguments.topologies or FABRICS:
        fabric = parse(name)
        if fabric.n_nodes > arguments.max_ranks:
            continue
        everyone = on_all_ranks(fabric, CollectiveKind.ALLTOALL)
        start = time.process_time()
        best = optimal_rate(fabric, everyone, gap=1e-4)
        print(
            f"{name}: F = {best.rate:.7g}, gap {best.gap:.1e}, {time.process_time() - start:.2f}s", flush=True
        )
        for key in BASELINES:
            print(f"  {key:20}{baseline(fabric, key, best.rate)}", flush=True)
        start = time.process_time()
        bound = float(best_cut(fabric, everyone).pair_rate)
        seconds = time.process_time() - start
        print(f"  {'cut bound / F':20}{bound / best.rate:8.3f}{seconds:18.2f}s")
        start = time.process_time()
        scheme = fleischer_rate(fabric, everyone, epsilon=0.05)
        seconds = time.process_time() - start
        print(f"  {'fleischer 5% / F':20}{scheme.rate / best.rate:8.3f}{seconds:18.2f}s", flush=True)


if __name__ == "__main__":
    main()
