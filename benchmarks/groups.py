"""Optima and trees of many groups of ranks at once: CPU seconds, memory, and the figures that they must give.

Run from the repository root: ``python -m benchmarks.groups`` (half a minute); each row is a process. The
second table is of whole schedules: unit trees and different trees of the group that has most, and the height.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Row:
    """A problem, what each group reaches together (bytes/s), and how long it may take (CPU s)."""

    fabric: str
    mesh: str
    options: tuple[str, ...]
    together: Fraction
    seconds: float


@dataclass(frozen=True)
class Solved:
    """A problem whose trees are made, and the most different trees that a group may take."""

    fabric: str
    kind: str
    mesh: str
    options: tuple[str, ...]
    trees: int


SPINES = "leaf_spine:128,16,gpus_per_leaf=512,oversubscription=4"
GB = 10**9
ROWS = (
    Row("dgx_h100:128", "128,8", (), Fraction(6400 * GB, 127), 2),
    Row(
        "rail_optimized:128",
        "128,8",
        ("--forward", "--without", "box5.gpu1--rail1"),
        Fraction(5600 * GB, 127),
        2,
    ),
    Row("torus:32,32", "16,64", ("--forward",), Fraction(16, 15), 5),
    Row("torus:64,64", "32,128", ("--forward",), Fraction(32, 31), 20),
    Row("torus:16,16", "16,16", ("--forward", "--without", "n0_0--n1_0"), Fraction(31, 15), 30),
    Row("torus:32,32", "32,32", ("--forward", "--without", "n0_0--n1_0"), Fraction(63, 31), 60),
    Row("random_regular_digraph:64,3", "8,8", ("--forward",), Fraction(25522864, 18055425), 10),
    Row(SPINES, "128,512", (), Fraction(1600 * GB, 127), 5),
    Row(SPINES, "128,512", ("--without", "leaf3--spine2"), Fraction(1500 * GB, 127), 5),
)
DEAD_SPINES = ("--without", "leaf3--spine2,leaf3--spine5,leaf9--spine0")
SOLVED = (
    Solved("generalized_kautz:4,64", "reduce-scatter", "8,8", ("--forward",), 110),
    Solved("generalized_kautz:4,48", "reduce-scatter", "6,8", ("--forward",), 40),
    Solved("leaf_spine:32,8,gpus_per_leaf=32,oversubscription=4", "allgather", "32,32", DEAD_SPINES, 119),
    Solved("rail_optimized:128", "allgather", "128,8", ("--forward", "--without", "box5.gpu1--rail1"), 128),
    Solved("torus:8,8", "allgather", "8,8", ("--forward", "--without", "n0_0--n1_0"), 20),
    Solved("dgx_h100:128", "allgather", "128,8", (), 128),
)
_PROGRAM = """
import json, resource, sys
from treadle.cli.main import main
status = main(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_SELF)
spent = used.ru_utime + used.ru_stime
print(json.dumps({"status": status, "cpu_s": spent, "peak_mb": used.ru_maxrss / 1024}))
"""
_SOLVE = """
import json, resource, sys
import treadle
fabric, kind, mesh, *options = sys.argv[1:]
without = options[options.index("--without") + 1] if "--without" in options else ()
found = treadle.solve(fabric, kind, mesh=mesh, axes="0", forward="--forward" in options, without=without)
groups = found.plan.entries[0].schedule.groups
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "optimal": found.is_optimal and found.report.is_ok,
    "units": max(one.total_units for one in groups),
    "trees": max(sum(len(forest.tree_root) for forest in one.forests) for one in groups),
    "height": found.report.height_max,
    "cpu_s": used.ru_utime + used.ru_stime,
}))
"""


def measured(row: Row) -> tuple[dict[str, object], dict[str, float]]:
    """What the command prints, and what its process took."""
    words = ["bound", row.fabric, "allgather", "--mesh", row.mesh, "--axes", "0", *row.options, "--json"]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *words], capture_output=True, text=True, check=True
    )
    found, used = map(json.loads, done.stdout.splitlines())
    return found, used


def bounds() -> int:
    """Print a row for each optimum; how many are wrong."""
    wrong = 0
    print(f"{'problem':<100} {'GB/s or links':>14} {'CPU s':>6} {'may':>4} {'MB':>5}")
    for row in ROWS:
        found, used = measured(row)
        is_right = (
            Fraction(str(found["together_exact"])) == row.together and "together_upper_exact" not in found
        )
        wrong += not is_right
        shown = float(row.together / GB if row.together > 10**6 else row.together)
        name = f"{row.fabric} --mesh {row.mesh} {' '.join(row.options)}"
        print(
            f"{name:<100} {shown:>14.4f} {used['cpu_s']:>6.2f} {row.seconds:>4g} {used['peak_mb']:>5.0f}"
            f"{'' if is_right else '  WRONG'}",
            flush=True,
        )
    return wrong


def solved() -> int:
    """Print a row for each schedule; how many are wrong."""
    wrong = 0
    print(f"\n{'schedule':<118} {'units':>6} {'trees':>6} {'may':>4} {'height':>6} {'CPU s':>6}")
    for row in SOLVED:
        words = [row.fabric, row.kind, row.mesh, *row.options]
        done = subprocess.run(
            [sys.executable, "-c", _SOLVE, *words], capture_output=True, text=True, check=True
        )
        found = json.loads(done.stdout.splitlines()[-1])
        is_right = found["optimal"] and found["trees"] <= row.trees
        wrong += not is_right
        name = f"{row.fabric} {row.kind} --mesh {row.mesh} {' '.join(row.options)}"
        print(
            f"{name:<118} {found['units']:>6} {found['trees']:>6} {row.trees:>4} {found['height']:>6} "
            f"{found['cpu_s']:>6.2f}{'' if is_right else '  WRONG'}",
            flush=True,
        )
    return wrong


def main() -> int:
    """Print both tables; 1 if a figure is another."""
    return 1 if bounds() + solved() else 0


if __name__ == "__main__":
    sys.exit(main())
