"""Programs of a plan's schedules."""

from __future__ import annotations

from treadle.program.any_schedule import lower as lower_schedule
from treadle.program.any_schedule import lower_groups
from treadle.program.group_lists import ProgramGroups
from treadle.program.program import Program
from treadle.schedules.plan import Plan


def program_of(plan: Plan, size_bytes: int, *, in_place: bool = False, channels: int = 1) -> Program:
    """The runtime-neutral program of the plan's schedule for a size.

    Raises
    ------
    ScheduleError
        If none serves it, or the plan is of several groups: see `programs_of`.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("ring:4", "allgather").plan
    >>> treadle.planning.program_of(plan, 2**20)
    <Program allgather: 4 ranks, 8 chunks, 36 operations>
    """
    schedule = plan.schedule_for(size_bytes)
    return lower_schedule(plan.topology, plan.collective, schedule, in_place=in_place, channels=channels)


def programs_of(plan: Plan, size_bytes: int, *, in_place: bool = False, channels: int = 1) -> ProgramGroups:
    """The programs of all groups of a plan for a size; of a plan of one group its only one.

    Raises
    ------
    ScheduleError
        If no schedule serves the size.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("dgx_h100:1", "allgather", mesh="2,4", axes="1").plan
    >>> found = treadle.planning.programs_of(plan, 2**20)
    >>> found.groups, found.programs[0]
    (((0, 1, 2, 3), (4, 5, 6, 7)), <Program allgather: 4 ranks, 4 chunks, 28 operations>)
    """
    schedule = plan.schedule_for(size_bytes)
    return lower_groups(plan.topology, plan.collective, schedule, in_place=in_place, channels=channels)
