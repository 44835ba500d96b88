"""Records of measured tables: JSON files in docs/records, of which the site makes its pages of results.

A record has a title, a few words about it, the command that measures it again, pictures, and tables of text.
The scripts in benchmarks/ replace tables by title and keep the others, so that one part of a page can be
measured alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treadle.atomic import write_bytes

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "records"
SEPARATOR = " | "
"""Between the cells of a row, which is one string: a change of a row is a change of one line."""
_NUMBER = re.compile(r"[-+~≤<>]?[\d.,]+(e-?\d+)?( ?(%|x|s|MB))?|-|NO|yes|")


@dataclass(frozen=True)
class Table:
    """A table with text in its cells; notes explain columns and conditions of the measurement."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def lines(self) -> Iterator[str]:
        """Markdown, with columns of numbers on the right."""
        yield f"## {self.title}\n"
        if self.note:
            yield f"{self.note}\n"
        yield f"| {' | '.join(self.columns)} |"
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.columns)
        yield f"|{''.join('--:|' if all(map(_NUMBER.fullmatch, one)) else '---|' for one in columns)}"
        yield from (f"| {' | '.join(row)} |" for row in self.rows)
        yield ""


def read_record(name: str) -> dict[str, Any]:
    """A record's values, as in its file."""
    found: dict[str, Any] = json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def read_rows(name: str, title: str) -> list[list[str]]:
    """The rows of one table of a record; none where it has no such table."""
    tables = (one["rows"] for one in read_record(name)["tables"] if one["title"] == title)
    return [row.split(SEPARATOR) for row in next(tables, [])]


def page(name: str) -> str:
    """The page of a record in Markdown."""
    record = read_record(name)
    parts = [f"# {record['title']}\n", f"{record['about']}\n"]
    if record["command"]:
        parts.append(f"Measured by `{record['command']}`.\n")
    parts += [f"![{caption}](../../images/{file})\n" for file, caption in record["pictures"].items()]
    for one in record["tables"]:
        columns, *rows = (row.split(SEPARATOR) for row in (one["columns"], *one["rows"]))
        parts += Table(one["title"], columns, rows, one["note"]).lines()
    return "\n".join(parts).rstrip() + "\n"


def write_tables(name: str, *tables: Table) -> None:
    """Put tables into a record in place of those of the same titles, whose notes stay where none is given."""
    record = read_record(name)
    kept = {one["title"]: one for one in record["tables"]}
    for table in tables:
        kept[table.title] = {
            "title": table.title,
            "note": table.note or kept.get(table.title, {}).get("note", ""),
            "columns": SEPARATOR.join(table.columns),
            "rows": [SEPARATOR.join(row) for row in table.rows],
        }
    record["tables"] = [*kept.values()]
    write_bytes(RECORDS / f"{name}.json", (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())


def show(*tables: Table) -> None:
    """Print tables in Markdown."""
    for table in tables:
        print("\n".join(table.lines()))
