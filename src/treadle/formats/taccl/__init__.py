"""Algorithm files of TACCL and SCCL: the record of their verifier and messages."""

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
