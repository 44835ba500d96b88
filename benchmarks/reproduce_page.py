"""docs/results/reproduce.md: every table and figure of the papers with its command, our figures and theirs.

    python benchmarks/reproduce_page.py --docs docs              # full forms of up to a minute; some minutes
    python benchmarks/reproduce_page.py --docs docs --most 0     # quick forms only, a minute

Each exhibit is what `treadle reproduce NAME` prints. Times are of the machine that it runs on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from treadle.atomic import write_bytes
from treadle.reproduction.exhibit import Exhibit
from treadle.reproduction.exhibits import EXHIBITS
from treadle.reproduction.printed import rounded
from treadle.reproduction.reproduce import Reproduced, ReproducedRow, reproduce

FEW = 16
"""Rows up to which a table is shown whole; of longer ones what is the same is counted."""

OPENING = """# The papers' tables and figures, computed anew

Generated: `python benchmarks/reproduce_page.py --docs docs`. Each section is what its command prints.
Without a name `treadle reproduce` lists all; `--json` is for machines, `--full` leaves nothing out. Nothing
of ours is stored: every figure is computed when asked for. What is printed is data, with its place
(`src/treadle/reproduction/data/printed.toml`), and the functions that compute ours do not see it.

- *computed*: exact, certified from both sides, or CPU time of one thread of a shared 2-core virtual machine;
- *simulated*: by the model that is named; theirs was measured on machines that are not here;
- *no figures*: an illustration, a notation, a comparison in words.

"Same": to the digits that are printed; "same within 10%": the text gives the number roughly (~, up to);
"holds": the text gives a limit, which the value respects.
"""


def overview() -> Iterator[str]:
    """A line for each."""
    yield "| name | what | ours | CPU s | why not, or where |"
    yield "|---|---|---|--:|---|"
    for one in EXHIBITS:
        cost = f"{one.quick_s:g}" + (f", full {one.full_s:g}" if one.full_s else "") if one.is_here else ""
        yield f"| `{one.name}` | {one.what} | {one.basis} | {cost} | {one.reason} |"


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
        yield "\n| | unit | ours | printed | ours / printed | |"
        yield "|---|---|--:|--:|--:|---|"
        yield from map(line, rows)
    for remark in found.printed.remarks:
        yield f"\n{remark}"
    if not found.is_full:
        yield f"\nLeft out here: {exhibit.left_out}; `--full` takes about {exhibit.full_s:g} CPU s."


def model(exhibit: Exhibit) -> str:
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
    parser.add_argument("--docs", type=Path, required=True)
    parser.add_argument(
        "--most", type=float, default=60, help="CPU s of a full form, beyond which the quick one"
    )
    options = parser.parse_args()
    parts = [OPENING, "\n".join(overview()), ""]
    for exhibit in EXHIBITS:
        if exhibit.is_here and not exhibit.same_as:
            found = reproduce(exhibit.name, full=exhibit.full_s <= options.most)
            print(f"{exhibit.name}: {found.seconds:.1f} s", file=sys.stderr, flush=True)
            parts += ["\n".join(section(found)), ""]
    write_bytes(options.docs / "results" / "reproduce.md", "\n".join(parts).encode())


if __name__ == "__main__":
    main()
