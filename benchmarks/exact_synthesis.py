"""Exact synthesis beside SCCL: table 3.6 of the dissertation (allgather, fewest steps, 1 to 4 chunks).

    python -m benchmarks.exact_synthesis            # the whole table, about five minutes
    python -m benchmarks.exact_synthesis --small    # up to 9 nodes
    python -m benchmarks.exact_synthesis --bases    # the shipped bases instead

Ours are CPU seconds of one thread: symmetry, model and search, not the start of the process (0.6 s, once).
"T_L only" takes any rounds, as SCCL's setup does; "optimal T_B" asks for the fewest rounds that the number of
chunks allows. "symmetric" searches only schedules that a group of automorphisms keeps. SCCL's figures are
quoted: its authors' SMT solver on the dissertation's machine, wall seconds.
"""

from __future__ import annotations

import argparse
import time
from fractions import Fraction
from math import ceil

from rich.console import Console
from rich.table import Table

from treadle.reproduction.printed import published_figures
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.step_cost import bandwidth_time, node_bandwidth
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.exact import ExactResult, FreeRounds, SolverProcess, synthesise_exact
from treadle.synthesis.steps.exact.bases import BASES, find_base
from treadle.topologies import Topology, parse
from treadle.verification.steps.step_check import verify_steps

DIAMETER = {
    "hypercube(2)": 2, "hypercube(3)": 3, "hypercube(4)": 4, "hypercube(5)": 5,
    "torus(2, 2)": 2, "torus(3, 3)": 2, "torus(4, 4)": 4, "torus(5, 5)": 4, "torus(6, 6)": 6,
}  # fmt: skip


def sccl(name: str, chunks: int) -> str:
    """What table 3.6 prints; nothing else ended within 10^4 s."""
    found = published_figures()["table-3.6"].figures.get(f"{name}: SCCL's problem, c = {chunks}")
    return ">10^4" if found is None else found.text


def attempt(
    topology: Topology,
    steps: int,
    chunks: int,
    total: int,
    *,
    symmetric: bool,
    limit: float,
    solver: SolverProcess,
) -> tuple[str, ExactResult]:
    """CPU seconds or the reason for none; what is found is verified."""
    started = time.process_time()
    result = synthesise_exact(
        topology,
        CollectiveKind.ALLGATHER,
        chunks=chunks,
        rounds=FreeRounds(steps, total),
        time_limit_s=limit,
        symmetric=symmetric,
        solver=solver,
    )
    seconds = time.process_time() - started + result.seconds
    if result.schedule is None:
        return f"{result.phases[0].reason} {seconds:.1f}", result
    report = verify_steps(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER), result.schedule)
    if report.n_violations:
        raise SystemExit(f"{topology.name}: {report.violations[0]}")
    return f"{seconds:.2f}", result


def table_3_6(limit: float, *, small: bool) -> Table:
    """Our times beside SCCL's."""
    table = Table(title="table 3.6: allgather synthesis, CPU seconds of one thread")
    for column in (
        "fabric",
        "chunks",
        "SCCL",
        "T_L only",
        "T_L, optimal T_B",
        "symmetric",
        "T_B (M/B)",
        "bound",
    ):
        table.add_column(column, justify="left" if column == "fabric" else "right")
    with SolverProcess() as solver:
        for name in DIAMETER:
            topology = parse(name)
            n, steps = topology.n_nodes, DIAMETER[name]
            if small and n > 9:
                continue
            degree = topology.n_links // n
            for chunks in range(1, 5):
                least = max(steps, ceil(Fraction(chunks * (n - 1), degree)))
                words = []
                best: ExactResult | None = None
                for total, symmetric in ((steps * n * chunks, False), (least, False), (least, True)):
                    if n > 16 and not symmetric:
                        words.append("")  # too large for the complete search in minutes
                        continue
                    word, result = attempt(
                        topology, steps, chunks, total, symmetric=symmetric, limit=limit, solver=solver
                    )
                    words.append(word)
                    if total == least and result.schedule is not None:
                        best = result
                value = ""
                if best is not None and best.schedule is not None:
                    value = str(bandwidth_time(topology, best.schedule) * node_bandwidth(topology))
                table.add_row(name, str(chunks), sccl(name, chunks), *words, value, str(Fraction(n - 1, n)))
    return table


def bases_table(limit: float) -> Table:
    """Time to find each shipped base."""
    table = Table(title="bases that breadth-first broadcasts cannot do, CPU seconds of one thread")
    for column in ("graph", "direction", "chunks", "rounds", "CPU s"):
        table.add_column(column)
    with SolverProcess() as solver:
        for base in BASES:
            for direction in Direction:
                found = find_base(base, direction, solver=solver, time_limit_s=limit)
                word = "allgather" if direction is Direction.BROADCAST else "reduce-scatter"
                rounds = " ".join(map(str, found.rounds))
                table.add_row(base.expression, word, str(base.chunks), rounds, f"{found.seconds:.2f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--bases", action="store_true")
    parser.add_argument("--time-limit", type=float, default=20.0, help="seconds per search")
    options = parser.parse_args()
    table = (
        bases_table(options.time_limit)
        if options.bases
        else table_3_6(options.time_limit, small=options.small)
    )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
