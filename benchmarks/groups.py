"""Optima of many groups of ranks at once: CPU seconds and memory, and the figures that they must give.

Run from the repository root: ``python benchmarks/groups.py`` (ten seconds); each row is a process.
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
    Row(SPINES, "128,512", (), Fraction(1600 * GB, 127), 5),
    Row(SPINES, "128,512", ("--without", "leaf3--spine2"), Fraction(1500 * GB, 127), 5),
)
_PROGRAM = """
import json, resource, sys
from treadle.cli.main import main
status = main(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_SELF)
spent = used.ru_utime + used.ru_stime
print(json.dumps({"status": status, "cpu_s": spent, "peak_mb": used.ru_maxrss / 1024}))
"""


def measured(row: Row) -> tuple[dict[str, object], dict[str, float]]:
    """What the command prints, and what its process took."""
    words = ["bound", row.fabric, "allgather", "--mesh", row.mesh, "--axes", "0", *row.options, "--json"]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *words], capture_output=True, text=True, check=True
    )
    found, used = map(json.loads, done.stdout.splitlines())
    return found, used


def main() -> int:
    """Print a row for each problem; 1 if a figure is another."""
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
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
