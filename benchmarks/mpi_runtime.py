"""The compiled MPI interpreter against the MPI library's own collectives, on this host.

    python -m benchmarks.mpi_runtime [--size 1K,64K,1M,64M] [--budget SECONDS] [--ahead-of-others]

Program, library and bare rounds run in the same processes in turn, so that all meet the same load of the
machine. Bare rounds are the program's hops alone: for each, a rank sends all its bytes to each peer as one
message, and waits for what comes. Ratios are of medians; best times are shown beside. Messages are those of
the rank that sends most.

Where other work keeps the cores busy, times say mostly how often the scheduler took the cores away:
--ahead-of-others (root, Linux) lets the measurement go first.
"""

from __future__ import annotations

import argparse
import statistics

from treadle.planning import parse_sizes, program_of, solve
from treadle.program.message_levels import dataflow
from treadle.program.passes import merge_levels
from treadle.runtime.mpi_build import build_interpreter, find_mpi
from treadle.runtime.mpi_c import (
    InterpreterTimes,
    interpreter_arguments,
    launch_environment,
    local_launch,
    run_interpreter,
    written_program,
)
from treadle.units import format_size

CASES = (
    ("complete(8)", "alltoall", "pipelined"),
    ("hypercube(3)", "alltoall", "pipelined"),
    ("ring(8)", "alltoall", "tsmcf"),
    ("mi250(1, 8)", "alltoall", "pipelined"),
    ("dgx_a100(1)", "allreduce", "forestcoll"),
    ("ring(8)", "allreduce", "ring-steps"),
    ("ring(8)", "allreduce", "bfb"),
    ("ring(8)", "allgather", "bfb"),
    ("ring(8)", "reduce-scatter", "bfb"),
    ("hypercube(4)", "allreduce", "bfb"),
    ("mi250(1)", "allreduce", "forestcoll"),
)
COLUMNS = (
    *("fabric", "collective", "schedule", "hops", "size", "messages", "median ms", "library's", "ratio"),
    *("rounds'", "ratio", "best ms", "library's", "rounds'"),
)
FIRST = ("sh", "-c", 'echo -15 > /proc/self/autogroup; exec "$@"', "first")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="1K,64K,1M,64M")
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--budget", type=float, default=1.0, help="seconds for one size")
    parser.add_argument("--ahead-of-others", action="store_true", help="a higher priority (root, Linux)")
    options = parser.parse_args()
    sizes = parse_sizes(options.size)
    mpi = find_mpi()
    interpreter = build_interpreter(mpi)
    print(f"| {' | '.join(COLUMNS)} |")
    print("|---" * len(COLUMNS) + "|")
    for fabric, kind, algorithm in CASES:
        plan = solve(fabric, kind, algorithm=algorithm).plan
        program = merge_levels(program_of(plan, max(sizes)))
        hops = int(dataflow(program).level.max()) + 1
        with written_program(program) as path:
            command = [
                *(FIRST if options.ahead_of_others else ()),
                *local_launch(mpi, program.n_ranks),
                str(interpreter),
                *interpreter_arguments(
                    path,
                    sizes,
                    iterations=options.iterations,
                    budget_s=options.budget,
                    with_reference=True,
                    with_rounds=True,
                ),
            ]
            found = run_interpreter(command, environment=launch_environment(), n_sizes=len(sizes))
        for row in found:
            assert not row.wrong
            size = format_size(row.size_bytes)
            cells = [fabric, kind, algorithm, str(hops), size, str(row.messages), *times_of(row)]
            print(f"| {' | '.join(cells)} |", flush=True)


def times_of(row: InterpreterTimes) -> list[str]:
    """Cells of a table: milliseconds and ratios."""
    runs = (row.times_s, row.reference_times_s, row.rounds_times_s)
    own, library, rounds = (1e3 * statistics.median(times) for times in runs)
    best = [1e3 * min(times) for times in runs]
    return [f"{cell:.3g}" for cell in (own, library, own / library, rounds, own / rounds, *best)]


if __name__ == "__main__":
    main()
