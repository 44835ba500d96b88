"""Sums of boxes carried by half of the ranks to the other half: verified, moving data, few messages."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.planning import run, simulate, solve
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.sizes.leaders import _across

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


def test_few_messages_leave_a_box() -> None:
    """Each of eight ranks sends four messages to other boxes, not fifteen."""
    plans = [
        solve("dgx_a100(16)", "allreduce", algorithm=name).plan
        for name in ("box-carriers", "factor-allreduce")
    ]
    times = [float(simulate(plan, "16K", cost_model="reference").rows[0].time) for plan in plans]
    assert times[0] < 11e-6 < 12e-6 < times[1]


def test_sums_go_to_other_boxes_from_carriers_to_receivers_in_turn() -> None:
    carriers, receivers = np.arange(12).reshape(4, 3), np.arange(12, 24).reshape(4, 3)
    sender, target = _across(carriers, receivers)
    # to the next box, from the first carrier to the first receiver; to the one after it, from the second ones
    assert [*zip(sender.tolist(), target.tolist(), strict=True)] == [
        *((0, 15), (3, 18), (6, 21), (9, 12)),
        *((1, 19), (4, 22), (7, 13), (10, 16)),
        *((2, 23), (5, 14), (8, 17), (11, 20)),
    ]
    assert [len(column) for column in _across(carriers[:1], receivers[:1])] == [0, 0]


def test_what_it_refuses() -> None:
    for fabric, why in (("dgx_a100(2, 3)", "one even size, found 3"), ("dgx_a100(1)", "is one box")):
        with pytest.raises(ScheduleError, match=why):
            solve(fabric, "allreduce", algorithm="box-carriers")
