"""Rows of the CSV files that users give: layer tables and layer times."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from io import StringIO

from treadle.errors import FormatError


def csv_rows(
    text: str, what: str, check_header: Callable[[list[str]], None]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield line numbers and cells by column, stripped; rows without text are skipped.

    Raises
    ------
    FormatError
        If the CSV is malformed, or a row has another number of cells than the header.
    """
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(StringIO(text), strict=True)]
    except csv.Error as error:
        raise FormatError(f"{what}: malformed CSV: {error}") from None
    header = rows[0] if rows else []
    check_header(header)
    for number, cells in enumerate(rows[1:], start=2):
        if any(cells):
            if len(cells) != len(header):
                raise FormatError(f"{what}: line {number}: expected {len(header)} cells, found {len(cells)}")
            yield number, dict(zip(header, cells, strict=True))
