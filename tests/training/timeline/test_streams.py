"""Timelines worked by hand, against a slow walk, and what holds of all of them."""

from __future__ import annotations

import pytest

from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import Seconds, Traffic
from treadle.training.timeline.contention import Contention
from treadle.training.timeline.streams import run_tasks
from treadle.training.timeline.task import COMPUTE_STREAM, Category, Task

DP: Traffic = (CollectiveKind.ALLREDUCE, ("dp",))


def compute(seconds: Seconds, *waits: int, device: int = 0) -> Task:
    return Task("compute", device, COMPUTE_STREAM, seconds, waits, Category.FORWARD)


def moves(
    seconds: Seconds,
    *waits: int,
    device: int = 0,
    stream: str = "network",
    traffic: Traffic = DP,
    urgent: bool = False,
) -> Task:
    category = Category(traffic[0].value if traffic[0] else "send")
    return Task("moves", device, stream, seconds, waits, category, traffic, 8, urgent)


def test_tasks_that_wait_for_each_other_are_refused() -> None:
    with pytest.raises(ScheduleError, match="never runs on stream compute of device 0"):
        run_tasks([compute(1, 1), compute(1)])
    with pytest.raises(ScheduleError, match="waits for task 7 of 1"):
        run_tasks([compute(1, 7)])


def test_values_refuse_what_is_out_of_range() -> None:
    with pytest.raises(ScheduleError, match="expected 0 or more"):
        compute(-1)
    with pytest.raises(ScheduleError, match="communicates on the stream compute"):
        moves(1, stream=COMPUTE_STREAM)
    with pytest.raises(ScheduleError, match=r"kappa 2.5; expected 1 .* to 2"):
        Contention(2.5)
    with pytest.raises(ScheduleError, match="as many of at least 1"):
        run_tasks([moves(1), moves(1, stream="tp")], Contention(1, lambda running: (0.5,) * len(running)))
