"""Demand matrices of all-to-alls from CSV or JSON files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from treadle.errors import FormatError, ScheduleError
from treadle.input_files import read_input_string
from treadle.schedules.alltoall.demands import MAX_DEMAND, Demands
from treadle.spelling import counted

MAX_FILE_BYTES = 2**25
MAX_RANKS = 2**13

_CELL = re.compile(r"[0-9]{1,7}")
_EXPECTED = "expected an integer from 0 to 2**20 (only ratios matter: scale all by one factor)"


def read_demands(path: Path | str) -> Demands:
    """Read a square matrix of nonnegative integers; row i has the data of rank i for each rank.

    Parameters
    ----------
    path : Path or str
        CSV (one row per line, no heading) or JSON (a list of lists).

    Raises
    ------
    FormatError
        If the file cannot be read or is anything else; one line.
    """
    source = str(path)
    text = read_input_string(path, MAX_FILE_BYTES, expected="a CSV or JSON matrix of integers")
    rows = _json_rows(text, source) if text.lstrip().startswith(("[", "{")) else _csv_rows(text, source)
    try:
        return Demands(np.array(rows, dtype=np.int64))
    except ScheduleError as error:
        raise FormatError(str(error), source=source) from None


def _check_shape(sizes: list[int], source: str) -> None:
    n = len(sizes)
    if not 2 <= n <= MAX_RANKS:
        raise FormatError(f"has {counted(n, 'row')}; expected 2 to {MAX_RANKS}, one per rank", source=source)
    for row, size in enumerate(sizes, 1):
        if size != n:
            found = f"row {row} has {counted(size, 'value')}"
            raise FormatError(f"{found}; expected {n}, as many as there are rows", source=source)


def _csv_rows(text: str, source: str) -> list[list[int]]:
    lines = [line for line in text.splitlines() if line.strip()]
    cells = [line.split(",", MAX_RANKS) for line in lines[: MAX_RANKS + 1]]
    _check_shape([len(row) for row in cells], source)
    for number, row in enumerate(cells, 1):
        for column, cell in enumerate(row, 1):
            if not _CELL.fullmatch(cell.strip()):
                raise _bad_cell(number, column, cell.strip(), source)
    return [[int(cell) for cell in row] for row in cells]


def _json_rows(text: str, source: str) -> list[list[int]]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise FormatError("is not JSON; expected a list of lists of integers", source=source) from None
    if not isinstance(value, list) or not all(isinstance(row, list) for row in value):
        raise FormatError("expected a JSON list of lists of integers", source=source)
    _check_shape([len(row) for row in value], source)
    for number, row in enumerate(value, 1):
        for column, cell in enumerate(row, 1):
            if type(cell) is not int or not 0 <= cell <= MAX_DEMAND:
                if isinstance(cell, list | dict):
                    found = "a list" if isinstance(cell, list) else "an object"
                else:
                    is_huge = type(cell) is int and abs(cell) >= 10**40
                    found = "a huge integer" if is_huge else json.dumps(cell, ensure_ascii=False)
                raise _bad_cell(number, column, found, source)
    return value


def _bad_cell(row: int, column: int, found: str, source: str) -> FormatError:
    shown = found if len(found) <= 24 else f"{found[:20]}..."
    return FormatError(f"row {row}, column {column}: found {shown!r}; {_EXPECTED}", source=source)
