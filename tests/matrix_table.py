"""The record matrix from what ran: ``python tests/matrix_table.py`` writes it again."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tools.records import Table, read_rows, write_tables

from matrix_columns import JOBS, Outcomes
from samples.matrix_cases import ROWS, SHORT, Key, plans

TITLES = "Schedules and runtimes", "Reasons"
COLUMNS = tuple(column for job in JOBS for column in job.columns)


def general(reason: str) -> str:
    """A refusal without the names and numbers of the case that was met first."""
    reason = re.sub(r"^\w+\([^)]*\): ", "", " ".join(reason.split()))
    return re.sub(r"\b(rank|root) \d+", r"\1 *", reason)


def tables(found: Mapping[str, Outcomes]) -> list[Table]:
    """A row for each kind of schedule, a column for each runtime, and the reasons of refusals by number."""
    notes: dict[str, int] = {}
    rows = []
    for row in ROWS:
        cells = []
        for column in COLUMNS:
            groups: dict[str, list[str]] = {}
            for kind in row.kinds:
                groups.setdefault(general(found[column][row.name, kind]), []).append(SHORT[kind])
            parts = []
            for reason, kinds in sorted(groups.items()):
                number = f" ({notes.setdefault(reason, len(notes) + 1)})" if reason else ""
                parts.append(" ".join(kinds) if not reason else f"not {' '.join(kinds)}{number}")
            cells.append("; ".join(parts))
        rows.append([row.name, *cells])
    reasons = [[str(number), reason] for reason, number in notes.items()]
    return [Table(TITLES[0], ["schedule", *COLUMNS], rows), Table(TITLES[1], ["", "reason"], reasons)]


def documented() -> dict[str, dict[Key, str]]:
    """What the record says of each column, row and collective: "" or the refusal."""
    notes = {row[0]: row[1] for row in read_rows("matrix", TITLES[1])}
    names = {short: kind for kind, short in SHORT.items()}
    found: dict[str, dict[Key, str]] = {column: {} for column in COLUMNS}
    for row, *cells in read_rows("matrix", TITLES[0]):
        for column, cell in zip(COLUMNS, cells, strict=True):
            for part in cell.split("; "):
                refused = re.fullmatch(r"not (.*) \((\d+)\)", part)
                for short in (refused[1] if refused else part).split():
                    found[column][row, names[short]] = notes[refused[2]] if refused else ""
    return found


def main() -> None:
    found: dict[str, Outcomes] = {}
    for job in JOBS:
        with tempfile.TemporaryDirectory() as folder:
            found |= zip(job.columns, job.run(Path(folder), plans()), strict=True)
        sys.stderr.write(f"{', '.join(job.columns)}\n")
    write_tables("matrix", *tables(found))


if __name__ == "__main__":
    main()
