"""Reads nccl-tests' tables: headings, rows, lists of ranks, closing lines; also where the heading is lost."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from treadle.diagnosis.log import OTHER_TESTS, TESTS, ListedRank, ResultTable, TableRow
from treadle.diagnosis.log_lines import LogLine, LogMessage

MAX_ROWS = 200_000
"""Largest number of rows of all tables together."""
MAX_TABLES = 1000
MAX_RANKS = 2**17
_MAX_SIZE = 2**60
_LONGEST_ROW = 1000

_TYPES = (
    r"(?:u?int(?:8|32|64)|u?int8_t|char|int|half|float16|float32|float64|float|double|bfloat16|bf16"
    r"|f(?:loat|p)?8_?(?:e4m3|e5m2)(?:fn|fnuz)?)"
)
_OPERATIONS = r"(?:sum|prod|min|max|avg|mulsum|all|none)"
_ROW = re.compile(
    rf"(?:^|[\s:>\]])(\d{{1,19}})\s+(\d{{1,19}})\s+{_TYPES}\s+(?:({_OPERATIONS})\s+)?([-+.:\w/\s]+)$"
)
_LABELS = re.compile(r"\[\d+(?:,\d+)?\](?:<std(?:out|err)>:?)?")
_RANK = re.compile(
    r"(?:#|^)\s*Rank\s+(\d{1,7})\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(\S{1,255})\s+device\s+(\d{1,4})"
    r"\s+\[[^\]]{0,40}\]\s*(.{0,100})"
)
_PROGRAM = re.compile(r"(?<![A-Za-z0-9])([a-z]+(?:_[a-z]+)?)_perf(?:_mpi)?\b")
_AVERAGE = re.compile(r"Avg bus bandwidth\s*:\s*(\d{1,9}(?:\.\d{1,9})?)(?![\d.])")
_OUT_OF_BOUNDS = re.compile(r"#\s*Out of bounds values\s*:\s*(\d{1,18})")

_Columns = tuple[int | None, Sequence[Sequence[str]]]
"""Root, where there is one, and of each side time, algbw, busbw and #wrong."""


class TableReader:
    """Takes a log's lines one by one and gathers its tables."""

    def __init__(self) -> None:
        self._tables: list[ResultTable] = []
        self._rows: list[TableRow] = []
        self._n_rows = 0
        self._heading: list[str] = []
        self._test = self._next_test = ""
        self._reduces: bool | None = None
        self._root: int | None = None
        self.ranks: dict[int, ListedRank] = {}  # those that were listed last
        self._wrong: LogLine | None = None

    def tables(self) -> tuple[ResultTable, ...]:
        """Close the last table and return all of them."""
        self._close()
        return tuple(self._tables)

    def take(self, message: LogMessage) -> None:
        """Read a line that is not NCCL's."""
        text = message.text
        if "_perf" in text:
            # a line that names a test: the first of its own, or a command
            match = _PROGRAM.search(text)
            if "Collective test starting" in text:
                self._close(is_over=True)
                self._next_test = ""
            if match is not None and match[1] in (*TESTS, *OTHER_TESTS) and "concluded" not in text:
                self._next_test = match[1]
        elif "#" in text or " Pid " in text or "algbw" in text:  # some paste logs without the #
            self._comment(message, text)
        elif len(text) <= _LONGEST_ROW:
            self._row(message)

    def _comment(self, message: LogMessage, text: str) -> None:
        if (match := _RANK.search(text)) is not None:
            if self._rows:  # the list of the next test
                self._close()
            if len(self.ranks) < MAX_RANKS:
                rank, host, device, model = match.groups()
                self.ranks[int(rank)] = ListedRank(message.line, host, int(device), model.strip())
        elif "algbw" in text and "busbw" in text:
            self._close()
            words = text.replace("#", " ", 1 if text.lstrip().startswith("#") else 0).split()
            self._heading = words[words.index("size") if "size" in words else 0 :]
            self._test, self._next_test = self._next_test, ""
        elif "# nThread" in text or "# Using devices" in text:
            if self._rows or "# nThread" in text:
                self._close()
                self.ranks = {}
        elif (match := _AVERAGE.search(text)) is not None:
            self._close(is_over=True)
            if self._tables and self._tables[-1].average is None:
                self._tables[-1] = replace(self._tables[-1], average=float(match[1]))
        elif (match := _OUT_OF_BOUNDS.search(text)) is not None:
            if int(match[1]):
                self._wrong = message.line
            self._close(is_over=True)

    def _close(self, *, is_over: bool = False) -> None:
        """End the table that is being read."""
        if self._rows and len(self._tables) < MAX_TABLES:
            test = self._test or self._next_test
            facts = (test, self._reduces, self._root, dict(self.ranks), self._wrong)
            self._tables.append(ResultTable(tuple(self._rows), *facts))
        self._rows, self._heading, self._reduces, self._root, self._wrong = [], [], None, None, None
        if is_over:
            self._test = ""

    def _row(self, message: LogMessage) -> None:
        match = _ROW.search(_LABELS.sub(" ", message.text)) if self._n_rows < MAX_ROWS else None
        if match is None:
            return
        size, operation, words = int(match[1]), match[3], match[4].split()
        found = _by_heading(self._heading, words) if self._heading else _by_count(words)
        if found is None or not 0 < size <= _MAX_SIZE:
            return
        root, measured = found
        sides = [side for side in (_side(one) for one in measured) if side is not None]
        if not sides:
            return
        time_us, algbw, busbw, _ = max(sides, key=lambda side: side[2])
        counts_wrong = not self._heading or any("wrong" in word for word in self._heading)
        wrong = sum(side[3] for side in sides) if counts_wrong else 0
        self._n_rows += 1
        self._rows.append(TableRow(message.line, size, algbw, busbw, time_us, wrong))
        if operation is not None:
            self._reduces = operation != "none"
        if root is not None:
            self._root = root


def _by_heading(heading: Sequence[str], words: Sequence[str]) -> _Columns | None:
    """Return Root, and the four columns of each side, by where the heading has them."""
    starts = [place - 1 for place, word in enumerate(heading) if word == "algbw"]
    # columns before the first time, of those in `words`
    first = sum(word == "root" for word in heading[: starts[0]])
    root = _integer(words[0]) if first and words else None
    if first and root is None:
        return None
    places = [start - starts[0] + first for start in starts]
    sides = [words[place : place + 4] for place in places if len(words) >= place + 3]
    return (root, sides) if sides else None


def _by_count(words: Sequence[str]) -> _Columns | None:
    """Return the same without a heading: each side has time, algbw, busbw and #wrong."""
    numbers = list(takewhile(lambda word: word == "N/A" or _number(word) is not None, words))
    root = None
    if len(numbers) % 4 == 1:
        root = _integer(numbers[0])
        numbers = numbers[1:]
        if root is None:
            return None
    sides = [numbers[place : place + 4] for place in range(0, min(8, len(numbers)) - 3, 4)]
    return (root, sides) if sides else None


def _side(words: Sequence[str]) -> tuple[float, float, float, int] | None:
    """Return Time, algbw, busbw and wrong elements; None for what was not measured."""
    values = [_number(word) for word in words[:3]]
    if any(value is None or value < 0 for value in values):
        return None
    time_us, algbw, busbw = (float(value or 0) for value in values)
    if not time_us or busbw > 1e9:
        return None
    wrong = _number(words[3]) if len(words) > 3 else None
    return time_us, algbw, busbw, int(wrong) if wrong is not None and 1 <= wrong < 2**53 else 0


def _number(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _integer(word: str) -> int | None:
    return int(word) if re.fullmatch(r"-?\d{1,7}", word) else None
