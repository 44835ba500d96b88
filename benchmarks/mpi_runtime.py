"""The compiled MPI interpreter against the MPI library's own collectives, on this host.

    python benchmarks/mpi_runtime.py [--size 1K,64K,1M,64M] [--iterations 20]

Both run in the same processes in turn, so that both meet the same load of the
machine. The ratio is of the medians; best times are shown beside.
"""

from __future__ import annotations

import argparse
import statistics

from treadle.planning import parse_sizes, program_of, solve
from treadle.runtime.mpi_build import build_interpreter, find_mpi
from treadle.runtime.mpi_c import (
    interpreter_arguments,
    launch_environment,
    local_launch,
    run_interpreter,
    written_program,
)
from treadle.units import format_size

CASES = (
    ("ring(8)", "allreduce", "ring-steps"),
    ("ring(8)", "allreduce", "bfb"),
    ("ring(8)", "allgather", "bfb"),
    ("ring(8)", "reduce-scatter", "bfb"),
    ("ring(8)", "alltoall", "tsmcf"),
    ("hypercube(4)", "allreduce", "bfb"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="1K,64K,1M,64M")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--budget", type=float, default=3.0, help="seconds for one size")
    options = parser.parse_args()
    sizes = parse_sizes(options.size)
    mpi = find_mpi()
    interpreter = build_interpreter(mpi)
    print("| fabric | collective | schedule | size | median ms | library's | ratio | best ms | library's |")
    print("|---|---|---|---|---|---|---|---|---|")
    for fabric, kind, algorithm in CASES:
        plan = solve(fabric, kind, algorithm=algorithm).plan
        program = program_of(plan, max(sizes))
        with written_program(program) as path:
            command = [
                *local_launch(mpi, program.n_ranks),
                str(interpreter),
                *interpreter_arguments(
                    path, sizes, iterations=options.iterations, budget_s=options.budget, with_reference=True
                ),
            ]
            found = run_interpreter(command, environment=launch_environment(), n_sizes=len(sizes))
        for row in found:
            assert not row.wrong
            own, library = statistics.median(row.times_s), statistics.median(row.reference_times_s)
            cells = [own, library, own / library, min(row.times_s), min(row.reference_times_s)]
            shown = [f"{cell * (1 if place == 2 else 1e3):.3g}" for place, cell in enumerate(cells)]
            print(
                f"| {fabric} | {kind} | {algorithm} | {format_size(row.size_bytes)} | {' | '.join(shown)} |"
            )


if __name__ == "__main__":
    main()
