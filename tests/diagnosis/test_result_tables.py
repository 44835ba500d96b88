"""Lines of logs taken apart, and tables of nccl-tests row by row, at their limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.diagnosis import log_lines, result_tables
from treadle.diagnosis.log import (
    ListedRank,
    ResultTable,
    TableRow,
)
from treadle.diagnosis.log_lines import LogLine, format_line, message, messages
from treadle.diagnosis.result_tables import TableReader
from treadle.errors import FormatError


def line(number: int) -> LogLine:
    return LogLine(number, f"line {number}")


# lines


def test_a_line_is_taken_apart() -> None:
    found = message(7, "[1,3]<stderr>: node-1.x:17:23 [-1] a.cc:5 NCCL WARN  odd  \r\n")
    assert (found.number, found.host, found.process) == (7, "node-1.x", "node-1.x:17:23")
    assert (found.device, found.level, found.text) == (-1, "WARN", " odd")
    assert found.line == LogLine(7, "[1,3]<stderr>: node-1.x:17:23 [-1] a.cc:5 NCCL WARN odd")
    assert message(1, "n:4 [0] NCCL TRACE x").process == "n:4"
    plain = message(2, "[1,3]<stdout>:0: 3: [4] <stdout>: text \n")
    assert (plain.text, plain.level, plain.host, plain.device) == ("text", "", "", -1)
    assert message(3, "first\rsecond").raw == "second"
    assert message(3, "\x1b[31ma\x07b\tc\x1b]0;title\x07").raw == "ab\tc"


def test_lines_are_shown_up_to_two_hundred_characters() -> None:
    assert format_line("a  b\tc") == "a b c"
    assert format_line("x" * 200) == "x" * 200
    assert format_line("x" * 201) == "x" * 197 + "..."


def test_long_lines_are_cut_and_large_files_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"x" * 8192 + b"y\nsecond\nlast")
    assert [(one.number, len(one.raw)) for one in messages(path)] == [(1, 8192), (2, 6), (3, 4)]
    monkeypatch.setattr(log_lines, "MAX_LOG_BYTES", path.stat().st_size)
    assert len(list(messages(path))) == 3
    monkeypatch.setattr(log_lines, "MAX_LOG_BYTES", path.stat().st_size - 1)
    with pytest.raises(FormatError, match="is larger than 0 MiB, the most that is read; keep the lines"):
        list(messages(path))
    with pytest.raises(FormatError) as refused:
        list(messages("a\0b"))
    assert str(refused.value).endswith("cannot be read: not a file name")
    assert log_lines.MAX_LINE_BYTES == 2**13


# tables


def rows_of(*lines: str) -> list[TableRow]:
    return [row for table in tables_of(*lines) for row in table.rows]


def tables_of(*lines: str) -> tuple[ResultTable, ...]:
    reader = TableReader()
    for number, text in enumerate(lines, start=1):
        reader.take(message(number, text))
    return reader.tables()


SIDE = "time algbw busbw #wrong"
HEADING = f"# size count type redop root {SIDE} {SIDE}"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("8 2 float sum -1 5.0 1.0 2.0 3 6.0 1.5 2.5 4", (8, 1.5, 2.5, 6.0, 7)),
        ("8 2 float sum -1 5.0 1.0 2.5 3 6.0 1.5 2.0 N/A", (8, 1.0, 2.5, 5.0, 3)),
        ("8 2 float sum -1 0.0 1.0 9.5 3 6.0 1.5 2.0 0", (8, 1.5, 2.0, 6.0, 0)),
        ("8 2 float sum -1 5.0 1.0 1e9 1 6.0 1.5 2.0 0", (8, 1.0, 1e9, 5.0, 1)),
        ("8 2 float sum -1 5.0 1.0 1.1e9 1 6.0 1.5 2.0 2", (8, 1.5, 2.0, 6.0, 2)),
        ("8 2 float sum -1 5.0 1.0 -2.0 1 6.0 1.5 2.0 2", (8, 1.5, 2.0, 6.0, 2)),
        ("8 2 float sum -1 5.0 1.0 2.0 1e-7 6.0 1.5 1.0 0", (8, 1.0, 2.0, 5.0, 0)),
        ("8 2 float sum -1 5.0 1.0 2.0", (8, 1.0, 2.0, 5.0, 0)),
        ("1152921504606846976 2 float sum -1 5.0 1.0 2.0 0", (2**60, 1.0, 2.0, 5.0, 0)),
        ("1152921504606846977 2 float sum -1 5.0 1.0 2.0 0", None),
        ("0 2 float sum -1 5.0 1.0 2.0 0", None),
        ("8 2 float sum -1 5.0 1.0", None),
        ("8 2 float sum x 5.0 1.0 2.0 0", None),
        ("8 2 blob sum -1 5.0 1.0 2.0 0", None),
    ],
)
def test_a_row_by_its_heading(words: str, expected: tuple[int, float, float, float, int] | None) -> None:
    found = [(row.size, row.algbw, row.busbw, row.time_us, row.wrong) for row in rows_of(HEADING, words)]
    assert found == ([] if expected is None else [expected])


@pytest.mark.parametrize(
    ("words", "root", "busbw", "wrong"),
    [
        ("8 2 float sum -1 5.0 1.0 2.0 3 6.0 1.5 2.5 4", -1, 2.5, 7),
        ("8 2 float none 5.0 1.0 2.0 3 6.0 1.5 2.5 4", None, 2.5, 7),
        ("8 2 float 3 5.0 1.0 2.0 N/A", 3, 2.0, 0),
        ("8 2 float 5.0 1.0 2.0 N/A 6.0 1.0 4.0 N/A 7.0 1.0 9.0 0", None, 4.0, 0),
        ("8 2 float 5.0 1.0 2.0 0 rest of it", None, 2.0, 0),
    ],
)
def test_a_row_without_a_heading(words: str, root: int | None, busbw: float, wrong: int) -> None:
    (table,) = tables_of(words)
    assert (table.root, table.rows[0].busbw, table.rows[0].wrong) == (root, busbw, wrong)


def test_rows_without_enough_numbers_are_passed_over() -> None:
    assert rows_of("8 2 float 5.0 1.0", "8 2 float x", "8 2 float 1.5 5.0 1.0 2.0 0") == []
    long = "8 2 float 5.0 1.0 2.0 0"
    assert len(rows_of(" " * (1000 - len(long)) + long)) == 1
    assert rows_of(" " * (1001 - len(long)) + long) == []


def test_errors_of_old_versions_are_no_wrong_elements() -> None:
    old = "# size count type redop time algbw busbw error time algbw busbw error"
    (row,) = rows_of(old, "8 2 float sum 5.0 1.0 2.0 7 6.0 1.5 2.5 8")
    assert (row.busbw, row.wrong) == (2.5, 0)
    rooted = "# size count type redop root time algbw busbw time algbw busbw"
    (table,) = tables_of(rooted, "8 2 float sum 5 5.0 1.0 2.0 6.0 1.5 2.5")
    assert (table.root, table.rows[0].busbw, table.reduces) == (5, 2.5, True)


def test_what_stands_around_tables() -> None:
    """Names, ranks, wrong values and averages go to the table that they belong to."""
    rank = "#  Rank {} Group 0 Pid 12 on {} device {} [0000:10:00.0] NVIDIA  X "
    row = "8 2 float none -1 5.0 1.0 2.0 0"
    first, second, third = tables_of(
        "all_gather_perf -b 8", "# nThread 1",
        rank.format(0, "a", 3), rank.format(1, "b", 0), HEADING, row, row,
        "# Out of bounds values : 3 FAILED", "# Avg bus bandwidth    : 2.25", "# Avg bus bandwidth    : 9",
        rank.format(7, "c", 1), HEADING, row, "# Out of bounds values : 0 OK",
        "# Collective test starting: reduce_perf_mpi", HEADING, row.replace("none", "sum").replace("-1", "5"),
    )  # fmt: skip
    assert (first.test, len(first.rows), first.average, first.reduces, first.root) == (
        "all_gather",
        2,
        2.25,
        False,
        -1,
    )
    assert first.out_of_bounds is not None
    assert first.out_of_bounds.number == 8
    assert first.ranks == {
        0: ListedRank(LogLine(3, format_line(rank.format(0, "a", 3))), "a", 3, "NVIDIA  X"),
        1: ListedRank(LogLine(4, format_line(rank.format(1, "b", 0))), "b", 0, "NVIDIA  X"),
    }
    assert (second.test, second.average, second.out_of_bounds, sorted(second.ranks)) == (
        "",
        None,
        None,
        [0, 1, 7],
    )
    assert (third.test, third.reduces, third.root) == ("reduce", True, 5)
    assert first.peak.line.number == 6


def test_tables_and_rows_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    row = "8 2 float none -1 5.0 1.0 2.0 0"
    rank = "# Rank {0} Pid 1 on h device 0 [x] y"
    monkeypatch.setattr(result_tables, "MAX_ROWS", 3)
    monkeypatch.setattr(result_tables, "MAX_TABLES", 2)
    monkeypatch.setattr(result_tables, "MAX_RANKS", 2)
    lines = [*(rank.format(k) for k in range(3)), HEADING, row, HEADING, row, HEADING, row, HEADING, row]
    reader = TableReader()
    for number, text in enumerate(lines, start=1):
        reader.take(message(number, text))
    assert len(reader.tables()) == 2
    assert sorted(reader.ranks) == [0, 1]
    assert [len(table.rows) for table in tables_of(HEADING, *[row] * 5)] == [3]
