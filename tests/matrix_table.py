"""The table of docs/reference/matrix.md from what ran: ``python tests/matrix_table.py`` writes it anew."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import places
from matrix_columns import JOBS, Outcomes
from samples.matrix_cases import ROWS, SHORT, Key, plans

PAGE = places.ROOT / "docs" / "reference" / "matrix.md"
BEGIN, END = "<!-- table: tests/matrix_table.py -->\n", "<!-- end of table -->\n"
COLUMNS = tuple(column for job in JOBS for column in job.columns)


def general(reason: str) -> str:
    """A refusal without the names and numbers of the case that was met first."""
    reason = re.sub(r"^\w+\([^)]*\): ", "", " ".join(reason.split()))
    return re.sub(r"\b(rank|root) \d+", r"\1 *", reason)


def render(found: Mapping[str, Outcomes]) -> str:
    """Markdown: a row for each kind of schedule, a column for each runtime, notes below."""
    notes: dict[str, int] = {}
    lines = ["| schedule | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
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
        lines.append(f"| {row.name} | " + " | ".join(cells) + " |")
    lines += ["", *(f"{number}. {reason}" for reason, number in notes.items()), ""]
    return "\n".join(lines)


def parse(text: str) -> dict[str, dict[Key, str]]:
    """What a table says of each column, row and collective: "" or the refusal."""
    notes = dict(re.findall(r"^(\d+)\. (.*)$", text, flags=re.MULTILINE))
    rows = [line.strip("| \n").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    names = {short: kind for kind, short in SHORT.items()}
    found: dict[str, dict[Key, str]] = {column: {} for column in rows[0][1:]}
    for row, *cells in rows[1:]:
        for column, cell in zip(found, cells, strict=True):
            for part in cell.split("; "):
                refused = re.fullmatch(r"not (.*) \((\d+)\)", part)
                for short in (refused[1] if refused else part).split():
                    found[column][row, names[short]] = notes[refused[2]] if refused else ""
    return found


def documented() -> str:
    """The table as the page has it."""
    return PAGE.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0]


def main() -> None:
    found: dict[str, Outcomes] = {}
    for job in JOBS:
        with tempfile.TemporaryDirectory() as folder:
            found |= zip(job.columns, job.run(Path(folder), plans()), strict=True)
        sys.stderr.write(f"{', '.join(job.columns)}\n")
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(before + BEGIN + render(found) + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
