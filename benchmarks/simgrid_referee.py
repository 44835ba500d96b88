"""Treadle's simulator against SimGrid's SMPI: the same programs on the same fabrics, two simulators.

Run ``python -m benchmarks.simgrid_referee [--write]``; it writes the record simulator-figures. Needs
SimGrid 3.32 (Debian: ``apt-get install --no-install-recommends libsimgrid-dev``). SMPI runs the C
interpreter's real MPI messages with real data; CM02 is its latency + bytes / bandwidth model with max-min
fair sharing, so the column to compare is Treadle's fair sharing. The last column: links that serve one
message at a time.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from tools.records import Table, show, write_tables

from treadle import planning
from treadle.simulation.simgrid import simulate_with_simgrid
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulation_options import Sharing, SimulationOptions
from treadle.simulation.tasks import task_graph

SIZE_BYTES = 3 * 2**20
ALPHAS_NS = (0, 10_000)
LARGEST_DIFFERENCE = 0.01


@dataclass(frozen=True)
class Case:
    """A plan to simulate. SimGrid has one route for two hosts, which some packers' trees do not keep to."""

    fabric: str
    collective: str
    algorithm: str
    packer: str | None = None


CASES = (
    Case('ring(8, bandwidth="1GB/s")', "allgather", "ring"),
    Case('hypercube(3, bandwidth="1GB/s")', "allgather", "bfb"),
    Case('hypercube(4, bandwidth="1GB/s")', "reduce-scatter", "bfb"),
    Case('hypercube(4, bandwidth="1GB/s")', "allreduce", "bfb"),
    Case('torus(4, 4, bandwidth="1GB/s")', "allgather", "bfb"),
    Case('torus(3, 3, 2, bandwidth="1GB/s")', "reduce-scatter", "bfb"),
    Case('torus(4, 4, bandwidth="1GB/s")', "allreduce", "bfb"),
    Case('torus(4, 4, bandwidth="1GB/s")', "allreduce", "forestcoll"),
    Case("dgx_a100(2)", "allgather", "forestcoll"),
    Case("dgx_a100(2)", "reduce-scatter", "forestcoll"),
    Case("dgx_a100(2)", "allreduce", "forestcoll"),
    Case("dgx_h100(2)", "allreduce", "forestcoll", "growth"),
    Case("mi250(1)", "allgather", "forestcoll"),
    Case('hypercube(3, bandwidth="1GB/s")', "alltoall", "pipelined"),
    Case('torus(3, 3, bandwidth="1GB/s")', "alltoall", "tsmcf"),
)


@dataclass(frozen=True)
class Comparison:
    """Seconds by both simulators."""

    case: Case
    alpha_ns: int
    simgrid_s: float
    fair_s: float
    ordered_s: float
    wrong: int

    @property
    def difference(self) -> float:
        """Relative."""
        return self.fair_s / self.simgrid_s - 1


def compare(case: Case, alpha_ns: int, size_bytes: int = SIZE_BYTES) -> Comparison:
    """Simulate a case twice."""
    plan = planning.solve(case.fabric, case.collective, algorithm=case.algorithm, packer=case.packer).plan
    program = planning.program_of(plan, size_bytes)
    (referee,) = simulate_with_simgrid(plan.topology, program, [size_bytes], alpha_ns=alpha_ns)
    graph = task_graph(plan.topology, program)
    fair, ordered = (
        simulate_graph(
            graph, referee.size_bytes, SimulationOptions(alpha_ns=alpha_ns, sharing=sharing)
        ).time_s
        for sharing in (Sharing.FAIR, Sharing.SLICE_ORDER)
    )
    return Comparison(case, alpha_ns, referee.time_s, fair, ordered, referee.wrong)


def table() -> tuple[Table, float]:
    """The comparison, and the largest difference."""
    rows, worst = [], 0.0
    for case in CASES:
        for alpha_ns in ALPHAS_NS:
            found = compare(case, alpha_ns)
            if found.wrong:
                raise SystemExit(f"{case}: {found.wrong} wrong elements")
            worst = max(worst, abs(found.difference))
            times = f"{found.simgrid_s * 1e6:.2f}", f"{found.fair_s * 1e6:.2f}", f"{found.difference:+.3%}"
            words = f"`{case.fabric}`", case.collective, case.algorithm, f"{alpha_ns / 1000:g}"
            rows.append([*words, *times, f"{found.ordered_s * 1e6:.2f}"])
    columns = ["fabric", "collective", "algorithm", "alpha (us)", "SimGrid (us)", "Treadle, fair (us)"]
    return Table("Next to SimGrid", [*columns, "difference", "one message at a time (us)"], rows), worst


def main() -> None:
    """Print the table; write it where asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="into the record simulator-figures")
    is_written = parser.parse_args().write
    found, worst = table()
    show(found)
    if is_written:
        write_tables("simulator-figures", found)
    print(f"largest difference {worst:.3%}")
    if worst > LARGEST_DIFFERENCE:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
