"""Breadth-first broadcast: CPU seconds of values, schedules and checks.

    python -m benchmarks.bfb                       # the tables, about twenty seconds
    python -m benchmarks.bfb --twisted-tori        # all with N <= 10^4

CPU seconds of this process; the core uses one thread. "paper s" quotes Table 3.6 of the dissertation (wall
time, linear programs in parallel).
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from rich.console import Console
from rich.table import Table

from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.steps.bfb import bfb_allgather, bfb_value, orbit_value
from treadle.topologies import parse
from treadle.topologies.catalogue.cayley import cayley_graph
from treadle.verification.steps.step_check import verify_steps

CASES = (
    ("hypercube(10)", "52.7"),
    ("torus(50, 50)", "61.1"),
    ("generalized_kautz(4, 2000)", ""),
    ("generalized_kautz(16, 2000)", ""),
    ("generalized_kautz(4, 5000)", ""),
)
VALUES = ("generalized_kautz(4, 10000)", "circulant(10000, 70, 71)")
ORBITS = (
    'abelian_cayley("316x317", 99855, 317, 316, 1)',
    'abelian_cayley("100000", 223, 99777, 224, 99776)',
    'abelian_cayley("46x46x47", 97290, 2162, 2115, 47, 46, 1)',
)

Result = TypeVar("Result")


def timed(call: Callable[[], Result]) -> tuple[Result, float]:
    """Result and CPU seconds of a call."""
    start = time.process_time()
    result = call()
    return result, time.process_time() - start


def schedules_table() -> Table:
    """Explicit schedules with their checks."""
    table = Table("fabric", "T_L", "T_B", "value s", "schedule s", "check s", "sends", "P", "paper s")
    for name, paper in CASES:
        topology = parse(name)
        value, value_s = timed(lambda topology=topology: bfb_value(topology))
        steps, steps_s = timed(lambda topology=topology: bfb_allgather(topology))
        schedule = StepSchedule(CollectiveKind.ALLGATHER, broadcast=steps)
        problem = on_all_ranks(topology, schedule.kind)
        report, check_s = timed(lambda t=topology, p=problem, s=schedule: verify_steps(t, p, s))
        if report.violations:
            sys.exit(f"{name}: {report.violations[0]}")
        figures = [f"{seconds:.2f}" for seconds in (value_s, steps_s, check_s)]
        chunks = str(steps.n_chunks)
        table.add_row(
            name,
            str(value.diameter),
            f"{float(value.t_b):.4f}",
            *figures,
            f"{steps.n_sends:,}",
            chunks,
            paper,
        )
    return table


def values_table() -> Table:
    """Values only; of Cayley graphs from one node."""
    table = Table("fabric", "N", "T_L", "T_B", "CPU s")
    for name in VALUES:
        topology = parse(name)
        value, seconds = timed(lambda topology=topology: bfb_value(topology))
        table.add_row(
            name,
            str(value.n_ranks),
            str(value.diameter),
            f"{float(value.t_b):.5f}",
            f"{seconds:.2f}",
        )
    for graph in map(cayley_graph, ORBITS):
        value, seconds = timed(lambda graph=graph: orbit_value(graph))
        cells = (str(graph.n_nodes), str(value.diameter), f"{float(value.t_b):.5f}", f"{seconds:.2f}")
        table.add_row(f"{graph.expression}, one orbit", *cells)
    return table


def twisted_tori(limit: int = 10_000) -> int:
    """Checks that every twisted torus up to `limit` nodes is BW-optimal; returns how many there are."""
    count = 0
    for k in range(2, limit):
        for dims in ((k, 2 * k), (k, k, 2 * k), (k, 2 * k, 2 * k)):
            nodes = 2 * k**2 if len(dims) == 2 else dims[0] * dims[1] * dims[2]
            if nodes > limit:
                continue
            if not bfb_value(parse(f"twisted_torus{dims}")).is_bw_optimal:
                sys.exit(f"twisted_torus{dims} is not BW-optimal")
            count += 1
    return count


def main() -> None:
    """Print the tables, or draw what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--twisted-tori", action="store_true")
    arguments = parser.parse_args()
    console = Console(width=130)
    if arguments.twisted_tori:
        count, seconds = timed(twisted_tori)
        console.print(f"{count} twisted tori, all BW-optimal; {seconds:.1f} s CPU")
    else:
        console.print(schedules_table())
        console.print(values_table())
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        console.print(f"peak memory {peak:.2f} GiB")


if __name__ == "__main__":
    main()
