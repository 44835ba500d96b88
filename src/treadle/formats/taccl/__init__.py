"""Algorithms that TACCL and SCCL write: what their reader and judge are."""

from __future__ import annotations

from treadle.formats.schedule_source import ScheduleSource

SCHEDULES = (
    ScheduleSource(
        name="taccl",
        title="TACCL's algorithms",
        begins=r'\{\s*"sccl_type":\s*"algorithm"',
        judge="treadle.formats.taccl.interpreter:interpret",
        traffic="treadle.formats.taccl.traffic:traffic",
    ),
)
