"""Results that are tables: as rows of plain values, as CSV, and as a data frame of pandas."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from treadle.atomic import write_bytes
from treadle.errors import MissingDependencyError

if TYPE_CHECKING:
    import pandas

Cell = str | int | float | bool | None
"""Cells of a table: numbers in SI units, which the column's name ends with."""


_FORMULA = ("=", "+", "-", "@", "\t")
"""First characters of cells that a spreadsheet would calculate."""


def format_csv(heading: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return CSV, with an apostrophe before text that a spreadsheet would take for a formula.

    Examples
    --------
    >>> format_csv(["node", "loss"], [["=1+1", -2], ["gpu0", "-"]])
    "node,loss\\n'=1+1,-2\\ngpu0,-\\n"
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heading)
    for row in rows:
        writer.writerow(
            f"'{cell}" if isinstance(cell, str) and len(cell) > 1 and cell.startswith(_FORMULA) else cell
            for cell in row
        )
    return out.getvalue()


def format_cell(cell: str) -> str:
    """Return the content of a cell that `format_csv` wrote, without the apostrophe before a formula."""
    return cell[1:] if cell[:1] == "'" and cell[1:].startswith(_FORMULA) else cell


class Tabular:
    """A result with rows. Those who inherit say what the rows are."""

    def records(self) -> list[dict[str, Cell]]:
        """The rows, each with the same columns."""
        raise NotImplementedError

    def to_csv(self, path: str | Path | None = None) -> str:
        """The rows as CSV with a line of names; also written to a file, whole or not at all, if one is given.

        Raises
        ------
        FormatError
            If the file cannot be written.
        """
        records = self.records()
        names = list(records[0]) if records else []
        text = format_csv(names, ([record[name] for name in names] for record in records))
        if path is not None:
            write_bytes(path, text.encode())
        return text

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a data frame; MissingDependencyError where pandas is not installed."""
        try:
            import pandas
        except ImportError:
            raise MissingDependencyError("pandas is not installed; pip install 'treadle[pandas]'") from None
        return pandas.DataFrame(self.records())


def plain(value: object) -> Cell:
    """A value as a cell: numbers as floats, the rest as text; None stays."""
    if value is None or isinstance(value, str | int | bool):
        return str(value) if isinstance(value, str) else value
    return float(value) if hasattr(value, "__float__") else str(value)


def plain_row(values: Mapping[str, object]) -> dict[str, Cell]:
    """A row of plain cells."""
    return {name: plain(value) for name, value in values.items()}
