"""What the rules about a box, its curve and the environment say, word for word, at their limits."""

from __future__ import annotations

from treadle.diagnosis.catalogue import (
    falls,
)
from treadle.diagnosis.cause import Case
from treadle.diagnosis.log import (
    Log,
    ResultTable,
    TableRow,
)
from treadle.diagnosis.log_lines import LogLine


def line(number: int) -> LogLine:
    return LogLine(number, f"line {number}")


def log(**facts: object) -> Log:
    return Log("nccl.log", 99, **facts)  # type: ignore[arg-type]


def row(number: int, size: int, busbw: float, wrong: int = 0) -> TableRow:
    return TableRow(line(number), size, busbw / 2, busbw, 1.0, wrong)


def test_a_curve_that_falls_within_a_box_is_no_networks() -> None:
    table = ResultTable((row(1, 1024, 10.0), row(2, 2048, 5.0)))
    text = "busbw falls with the size: 10 GB/s at 1KB, 5 at 2KB: within a box, where no network takes part"
    (found,) = falls(Case(log=log(), table=table, n_hosts=1), ())
    assert (found.name, found.text, found.lines) == ("falls-with-size", text, (line(1), line(2)))
    assert "NVLinks" in found.fix
    assert "RoCE" not in found.fix
    (found,) = falls(Case(log=log(), table=table, n_hosts=2), ())
    assert found.text.endswith("congestion in the network")
