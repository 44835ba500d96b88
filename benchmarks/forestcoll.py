"""Stages, CPU, wall time and memory of `treadle solve FABRIC COLLECTIVE -o PLAN`, all included.

    python -m benchmarks.forestcoll            # the whole table, a minute or two
    python -m benchmarks.forestcoll --small    # up to 128 GPUs

Each row is a process of its own, so memory is that of the row. Stages are CPU seconds; "CPU s" adds the
start of Python, imports and writing. The last column is of the authors: their public Python for 16 GPUs
(CPU seconds of a 2-core virtual machine, docs/how-it-works/related-systems.md), table B.2 of the dissertation
(Java, 128 cores) for 1024.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

from rich.console import Console
from rich.table import Table

from treadle.units import format_bandwidth

CASES = (
    ("dgx_a100(2)", "allgather", "4.9 s"),
    ("dgx_a100(2)", "allreduce", ""),
    ("mi250(2)", "allgather", ""),
    ("dgx_a100(16)", "allgather", ""),
    ("mi250(8)", "allgather", ""),
    ("dgx_a100_flat(128)", "allgather", "36.5 min"),
    ("dgx_a100(128)", "allgather", ""),
    ("mi250(64)", "allgather", "37.7 min"),
    ("pods(8, 16)", "allgather", ""),
    ("with_failed_links(dgx_a100_flat(128), 'box0.gpu0--ib0')", "allgather", ""),
    ("torus(32, 32)", "allgather", ""),
    ("hypercube(10)", "allgather", ""),
)
STAGES = ("optimum", "switch_removal", "tree_packing", "paths", "verify")
SMALL = 5
RUN = "import sys; from treadle.cli.main import main; sys.exit(main(sys.argv[1:]))"


def measure(fabric: str, collective: str, folder: Path) -> dict[str, object]:
    """Solve one case in a process of its own; its JSON report with wall time, CPU and peak memory."""
    report_path = folder / "report.json"
    command = [
        sys.executable,
        "-c",
        RUN,
        "solve",
        fabric,
        collective,
        "-o",
        str(folder / "plan.zip"),
        "--json",
    ]
    start = time.monotonic()
    with report_path.open("wb") as output:
        process = subprocess.Popen(command, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    report: dict[str, object] = json.loads(report_path.read_text()) if process.returncode == 0 else {}
    report["wall"] = time.monotonic() - start
    report["cpu"] = usage.ru_utime + usage.ru_stime
    report["memory"] = usage.ru_maxrss / 1024
    report["status"] = process.returncode
    return report


def row(fabric: str, collective: str, published: str, report: dict[str, object]) -> list[str]:
    """One line of the table."""
    if report["status"]:
        return [fabric, collective, f"exit {report['status']}"]
    seconds = report["seconds"]
    return [
        fabric,
        collective,
        str(report["ranks"]),
        format_bandwidth(Fraction(str(report["algbw_exact"]))),
        "yes" if report["optimal"] else "no",
        str(report.get("trees_per_root", "")),
        str(report["height_max"]),
        *(f"{seconds.get(stage, 0):.2f}" for stage in STAGES),
        f"{report['cpu']:.2f}",
        f"{report['wall']:.2f}",
        f"{report['memory']:.0f}",
        published,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="only fabrics of up to 128 GPUs")
    arguments = parser.parse_args()
    table = Table("fabric", "collective", "ranks", "algbw", "optimal", "k", "height", *STAGES)
    for name in ("CPU s", "wall s", "MB", "published"):
        table.add_column(name)
    with tempfile.TemporaryDirectory() as folder:
        for fabric, collective, published in CASES[: SMALL if arguments.small else None]:
            report = measure(fabric, collective, Path(folder))
            table.add_row(*row(fabric, collective, published, report))
            print(f"{fabric} {collective}: {report['wall']:.1f} s", file=sys.stderr)
    Console(width=200).print(table)


if __name__ == "__main__":
    main()
