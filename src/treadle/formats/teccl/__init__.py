"""Schedules that TE-CCL writes: what their reader and judge are."""

from __future__ import annotations

from treadle.formats.schedule_source import ScheduleSource

SCHEDULES = (
    ScheduleSource(
        name="te-ccl",
        title="TE-CCL's schedules",
        begins=r'\{\s*"\d-Epoch_Duration"',
        judge="treadle.formats.teccl.interpreter:interpret",
        traffic="treadle.formats.teccl.traffic:traffic",
    ),
)
