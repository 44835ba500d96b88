"""Fig. 7 of the all-to-all paper: generalized Kautz graphs of degree 4, N against seconds and memory.

    python -m benchmarks.alltoall_scaling              # N = 16 to 1000, minutes
    python -m benchmarks.alltoall_scaling --nodes 27 64 --others

Each N in a fresh process. CPU seconds over all threads; memory is the peak of the process, after the rate and
after the whole schedule. "routes": paths taken from the flow, what MCF-decomp's children and widest paths are
for. "steps": chunked steps for hosts that forward, for N up to 256. ``--others`` adds the published programs
and baselines as they are implemented here, each where it ends in minutes.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

from treadle.planning import solve
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall import optimal_rate
from treadle.synthesis.alltoall.baselines.single_path_ilp import ilp_disjoint
from treadle.synthesis.alltoall.rate.fleischer import fleischer_rate
from treadle.synthesis.alltoall.rate.mcf_programs import link_mcf, master_mcf
from treadle.synthesis.alltoall.routes.extract import extract_paths
from treadle.topologies import parse

NODES = (16, 32, 50, 64, 100, 128, 256, 512, 1000)
MOST_STEPS = 256
OTHERS: dict[str, int] = {"link MCF": 27, "master LP": 100, "FPTAS 5%": 256, "ILP-disjoint": 100}
"""The largest N at which each is tried."""
ILP_SECONDS = 60.0

Value = TypeVar("Value")


def timed(call: Callable[[], Value]) -> tuple[Value, float]:
    """Value and CPU seconds of a call."""
    start = time.process_time()
    value = call()
    return value, time.process_time() - start


def peak() -> float:
    """Largest memory of this process so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def ours(n: int, gap: float) -> str:
    """One row: the rate, routes and steps."""
    fabric = parse(f"generalized_kautz(4, {n})")
    everyone = on_all_ranks(fabric, CollectiveKind.ALLTOALL)
    clock = time.monotonic()
    best, rate_s = timed(lambda: optimal_rate(fabric, everyone, gap=gap))
    wall, rate_mib = time.monotonic() - clock, peak()
    routes, routes_s = timed(lambda: extract_paths(fabric, everyone, best.flow.by_source))
    share, each = routes.rate(fabric) / best.rate, routes.paths.n_paths / (n * (n - 1))
    routes_mib, steps = peak(), "-"
    if n <= MOST_STEPS:
        steps = steps_cell(n, float(best.upper))
    return (
        f"| {n} | {best.rate:.7g} | {best.gap:.1e} | {rate_s:.2f} ({wall:.2f}) | {rate_mib:.0f} "
        f"| {routes_s:.2f} | {share:.4f} | {each:.2f} | {routes_mib:.0f} | {steps} |"
    )


def steps_cell(n: int, upper: float) -> str:
    """CPU seconds of a verified plan in steps, and its time over the lower bound."""
    fabric = parse(f"generalized_kautz(4, {n})")
    everyone = on_all_ranks(fabric, CollectiveKind.ALLTOALL)
    result, seconds = timed(lambda: solve(fabric, everyone, algorithm="pipelined"))
    return f"{seconds:.1f} s, {upper * n / float(result.algbw):.3f}"


def others(n: int) -> str:
    """One row: seconds and, where it is no optimum, time over the optimum."""
    fabric = parse(f"generalized_kautz(4, {n})")
    everyone = on_all_ranks(fabric, CollectiveKind.ALLTOALL)
    cells = [str(n)]
    best = optimal_rate(fabric, everyone, gap=1e-4).rate
    for name, most in OTHERS.items():
        if n > most:
            cells.append("-")
        elif name == "link MCF":
            cells.append(f"{timed(lambda: link_mcf(fabric, everyone))[1]:.1f}")
        elif name == "master LP":
            cells.append(f"{timed(lambda: master_mcf(fabric, everyone))[1]:.1f}")
        elif name == "FPTAS 5%":
            found, seconds = timed(lambda: fleischer_rate(fabric, everyone, epsilon=0.05))
            cells.append(f"{seconds:.1f}, {best / found.rate:.3f}")
        else:
            single, seconds = timed(lambda: ilp_disjoint(fabric, everyone, time_limit_s=ILP_SECONDS))
            late = " (limit)" if single.is_late else ""
            cells.append(f"{seconds:.1f}, {best * float(single.time):.3f}{late}")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the tables, a row when it is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, nargs="+", default=list(NODES))
    parser.add_argument("--gap", type=float, default=1e-3)
    parser.add_argument("--others", action="store_true", help="the published programs and baselines as well")
    options = parser.parse_args()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as fresh:
        print("| N | F | gap | rate s (wall) | MiB | routes s | routes / F | a pair | MiB | steps |")
        print("|---" * 10 + "|")
        for n in options.nodes:
            print(fresh.submit(ours, n, options.gap).result(), flush=True)
        if options.others:
            print(f"\n| N | {' | '.join(OTHERS)} |")
            print("|---" * (1 + len(OTHERS)) + "|")
            for n in options.nodes:
                if n <= max(OTHERS.values()):
                    print(fresh.submit(others, n).result(), flush=True)


if __name__ == "__main__":
    main()
