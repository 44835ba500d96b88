"""The values of every table and figure of the papers, as a kept record for the site.

    python -m benchmarks.reproduce_page              # full forms of up to a minute; some minutes
    python -m benchmarks.reproduce_page --most 0     # quick forms only, a minute

Each exhibit is what `treadle reproduce NAME` prints. Times are of the machine that it runs on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from treadle.atomic import write_bytes
from treadle.reproduction.paper_figure import PaperFigure
from treadle.reproduction.paper_figures import EXHIBITS
from treadle.reproduction.printed import rounded
from treadle.reproduction.reproduce import Reproduced, ReproducedRow, reproduce

ROOT = Path(__file__).resolve().parents[1]
FEW = 16
"""Rows up to which a table is shown whole; of longer ones what is the same is counted."""


def section(found: Reproduced) -> Iterator[str]:
    """One exhibit."""
    exhibit = found.exhibit
    flag = " --full" if exhibit.left_out and found.is_full else ""
    yield f"## {exhibit.name}: {exhibit.what}"
    yield f"`treadle reproduce {exhibit.name}{flag}` ({exhibit.basis}{model(exhibit)})."
    yield f"Printed in: {found.printed.citation}."
    if exhibit.command:
        yield f"By an ordinary command: `{exhibit.command}`."
    rows = list(found.rows)
    if len(rows) > FEW:
        same = sum(row.agrees is True for row in rows)
        if same:
            printed = sum(row.agrees is not None for row in rows)
            yield f"\n{same} of the {printed} printed figures are the same."
        rows = [row for row in rows if not row.agrees][: 3 * FEW]
    if rows:
        yield "\n| | unit | Treadle | printed | Treadle / printed | |"
        yield "|---|---|--:|--:|--:|---|"
        yield from map(line, rows)
    for remark in found.printed.remarks:
        yield f"\n{remark}"
    if not found.is_full:
        yield f"\nLeft out here: {exhibit.left_out}; `--full` takes about {exhibit.full_s:g} CPU s."


def model(exhibit: PaperFigure) -> str:
    return f", {exhibit.model}" if exhibit.model else ""


def line(row: ReproducedRow) -> str:
    printed = "" if row.printed is None else row.printed.text
    value = row.ours.value
    ours = rounded(value) if isinstance(value, Fraction | float | int) else value or "-"
    return f"| {row.ours.label} | {row.ours.unit} | {ours} | {printed} | {row.difference} | {row.why} |"


def main() -> None:
    """Compute and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--most", type=float, default=60, help="CPU s of a full form, beyond which the quick one"
    )
    options = parser.parse_args()
    parts = ["# All tables and figures, Treadle's values next to those in print", ""]
    for exhibit in EXHIBITS:
        if exhibit.is_here and not exhibit.same_as:
            found = reproduce(exhibit.name, full=exhibit.full_s <= options.most)
            print(f"{exhibit.name}: {found.seconds:.1f} s", file=sys.stderr, flush=True)
            parts += ["\n".join(section(found)), ""]
    write_bytes(ROOT / "tests" / "golden" / "reproduced.md", "\n".join(parts).encode())


if __name__ == "__main__":
    main()
