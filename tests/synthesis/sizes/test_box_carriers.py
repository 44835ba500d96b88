"""Sums of boxes carried by half of the ranks to the other half: verified, moving data, few messages."""

from __future__ import annotations

import pytest

from treadle.planning import run, solve
from treadle.schedules.steps.steps import StepSchedule

ODD = [0, 4, 28, 1020, 4 * 997]


@pytest.mark.parametrize(
    "fabric", ["dgx_a100(2, 2)", "dgx_a100(3, 4)", "dgx_a100(5, 4)", "dgx_h100(2, nvls=True)", "mi250(2)"]
)
def test_boxes(fabric: str) -> None:
    found = solve(fabric, "allreduce", algorithm="box-carriers")
    assert found.report.is_ok
    (entry,) = found.plan.entries
    assert isinstance(entry.schedule, StepSchedule)
    assert entry.schedule.n_steps == 4 - (fabric == "dgx_a100(2, 2)")
    assert not any(row.wrong for row in run(found.plan, ODD, iterations=1).rows)
