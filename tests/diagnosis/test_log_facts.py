"""What lines of logs say, one by one, at their limits; and what the figures of a log tell."""

from __future__ import annotations

import pytest

from treadle.diagnosis.log import (
    ResultTable,
    TableRow,
)
from treadle.diagnosis.log_lines import LogLine
from treadle.diagnosis.log_values import ranks_of
from treadle.schedules.collective import CollectiveKind


def line(number: int) -> LogLine:
    return LogLine(number, f"line {number}")


# NCCL's lines


# figures


def table(
    *rows: tuple[float, float], test: str = "", reduces: bool | None = None, root: int | None = None
) -> ResultTable:
    found = tuple(TableRow(line(k), 8, algbw, busbw, 1.0, 0) for k, (algbw, busbw) in enumerate(rows))
    return ResultTable(found, test, reduces, root)


@pytest.mark.parametrize("n", [2, 3, 5, 8, 16])
def test_how_many_ranks_figures_show(n: int) -> None:
    """busbw / algbw is 2 (n - 1) / n of an allreduce, (n - 1) / n of an allgather; the fastest row counts."""
    for kind, factor in ((CollectiveKind.ALLREDUCE, 2), (CollectiveKind.ALLGATHER, 1)):
        share = factor * (n - 1) / n
        assert ranks_of(table((1.5, 9.0), (200.0, round(200 * share, 2))), kind) == n
