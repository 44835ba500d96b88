"""One cost model a machine: fits to the tables that the ForestColl preprint measured, and what they predict.

    python -m benchmarks.cost_fit

Prints the markdown of docs/how-to/calibration.md: errors of a model fitted to all schedules of a table, and
of one that is fitted to rings and trees, on those of ForestColl. TACCL has none at hand.
"""

from __future__ import annotations

from time import process_time

from treadle import planning
from treadle.simulation.calibration.cost_fit import CostFit, Sweep, fit_cost_model, mean_error
from treadle.simulation.calibration.measurements import Measurement

SIZES = (2**20, 2**24, 2**27, 2**30)
Rates = dict[tuple[str, str], tuple[float, float, float, float]]
TABLE_3: Rates = {
    ("allgather", "forestcoll"): (13.1, 92.6, 201, 247),
    ("allgather", "ring"): (3.17, 37.6, 152, 187),
    ("reduce-scatter", "forestcoll"): (9.24, 72.5, 185, 247),
    ("reduce-scatter", "ring"): (3.17, 37.5, 151, 190),
    ("allreduce", "forestcoll"): (5.75, 41.4, 107, 122),
    ("allreduce", "double-binary-tree"): (4.47, 34.8, 71.9, 96.8),
    ("allreduce", "ring"): (1.75, 20.8, 78.3, 95.3),
}
TABLE_2: Rates = {
    ("allgather", "forestcoll"): (9.3, 69.8, 152, 174),
    ("allgather", "ring"): (2.98, 35.2, 111, 165),
    ("reduce-scatter", "forestcoll"): (9.75, 68.8, 146, 177),
    ("reduce-scatter", "ring"): (2.98, 35.9, 114, 163),
    ("allreduce", "forestcoll"): (5.26, 42.3, 78.3, 87.4),
    ("allreduce", "blink"): (5.12, 31.6, 60.5, 75.4),
    ("allreduce", "double-binary-tree"): (4.69, 33.0, 67.3, 86.5),
    ("allreduce", "ring"): (1.55, 18.3, 56.7, 82.9),
}
"""Algbw in GB/s at `SIZES`, by collective and schedule."""


def sweeps(fabric: str, table: Rates) -> list[Sweep]:
    """The rows of a table with the plans that come nearest to what was run."""
    return [
        Sweep(
            f"{kind} {algorithm}",
            planning.solve(fabric, kind, algorithm=algorithm).plan,
            [Measurement(size, size / (rate * 1e9)) for size, rate in zip(SIZES, rates, strict=True)],
        )
        for (kind, algorithm), rates in table.items()
    ]


def row(words: str, fit: CostFit, *, held: bool = False) -> str:
    """A line of the table."""
    points = fit.held_out if held else fit.points
    most = max(abs(point.error) for point in points)
    return f"| {words} | {len(points)} | {mean_error(points):.1%} | {most:.1%} |"


def main() -> None:
    """Print the table."""
    print("| times of | times | mean error | largest |\n|---|--:|--:|--:|")
    for name, fabric, table in (
        ("table 3, two DGX A100", "dgx_a100_flat(2)", TABLE_3),
        ("table 2, two MI250 boxes", "mi250(2)", TABLE_2),
    ):
        start = process_time()
        found = sweeps(fabric, table)
        print(row(f"{name}: all, fitted", fit_cost_model(found)), flush=True)
        ours = [sweep for sweep in found if "forestcoll" in sweep.name]
        theirs = [sweep for sweep in found if "ring" in sweep.name or "tree" in sweep.name]
        fit = fit_cost_model(theirs, held_out=ours)
        print(row(f"{name}: rings and trees, fitted", fit))
        print(row(f"{name}: ForestColl, predicted from rings and trees", fit, held=True), flush=True)
        print(f"({process_time() - start:.0f} CPU s)")


if __name__ == "__main__":
    main()
