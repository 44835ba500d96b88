"""Programs of schedules of any form, of groups of ranks, and of plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle.errors import ScheduleError
from treadle.program.group_lists import ProgramGroups, as_groups
from treadle.program.program import Program
from treadle.program.routes.route_program import lower_routes
from treadle.program.steps.exchange_lowering import lower_exchange
from treadle.program.steps.step_lowering import lower_steps
from treadle.program.trees.forest_program import lower as lower_trees
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import Collective, collective_of_group
from treadle.schedules.plan import Plan
from treadle.schedules.schedule import Schedule, written_out
from treadle.schedules.trees.forest import ForestSchedule
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.topologies.topology import Topology


def lower(
    topology: Topology,
    collective: Collective,
    schedule: Schedule,
    *,
    channels: int = 1,
    in_place: bool = False,
    merge: bool = True,
) -> Program:
    """Lower a schedule to a program, by its type.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    schedule : Schedule
        Verified by the caller.
    channels : int
        Independent streams between two ranks (steps: of each link; routes: in each layer) that the data are
        assigned to.
    in_place : bool
        INPUT and OUTPUT are one memory.
    merge : bool
        Send adjacent chunks as one message if they have the same ends, path and order.

    Raises
    ------
    ScheduleError
        If the schedule does not fit the collective.
    InfeasibleError
        If programs cannot express it, or a factored schedule has too many ranks.
    """
    schedule = written_out(schedule)
    make: Callable[..., Program] = lower_steps
    if isinstance(schedule, ForestSchedule):
        make = lower_trees
    elif isinstance(schedule, ExchangeSchedule):
        make = lower_exchange
    elif isinstance(schedule, RouteSchedule | TimedRoutes):
        make = lower_routes
    return make(topology, collective, schedule, channels=channels, in_place=in_place, merge=merge)


def lower_groups(
    topology: Topology,
    collective: Collective,
    schedule: Schedule,
    *,
    channels: int = 1,
    in_place: bool = False,
    merge: bool = True,
) -> ProgramGroups:
    """Lower a schedule to a program for each group of ranks; a schedule without groups has one.

    Parameters and errors are those of `lower`.
    """
    options: dict[str, Any] = {"channels": channels, "in_place": in_place, "merge": merge}
    if not isinstance(schedule, GroupSchedule):
        return as_groups(lower(topology, collective, schedule, **options))
    if collective.groups is None or len(collective.groups) != len(schedule.groups):
        raise ScheduleError(
            f"the schedule has {len(schedule.groups)} groups, the collective {collective.n_groups or 1}"
        )
    programs = tuple(
        lower_trees(topology, collective_of_group(topology, collective, number), group, **options)
        for number, group in enumerate(schedule.groups)
    )
    return ProgramGroups(programs, collective.groups)


def program_of(plan: Plan, size_bytes: int, *, in_place: bool = False, channels: int = 1) -> Program:
    """Return the runtime-neutral program of the plan's schedule for a size.

    Raises
    ------
    ScheduleError
        If no schedule supports the size, or the plan has several groups: see `programs_of`.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("ring:4", "allgather").plan
    >>> treadle.planning.program_of(plan, 2**20)
    <Program allgather: 4 ranks, 8 chunks, 36 operations>
    """
    schedule = plan.schedule_for(size_bytes)
    return lower(plan.topology, plan.collective, schedule, in_place=in_place, channels=channels)


def programs_of(plan: Plan, size_bytes: int, *, in_place: bool = False, channels: int = 1) -> ProgramGroups:
    """Return the programs of all groups of a plan for a size; a plan without groups has one.

    Raises
    ------
    ScheduleError
        If no schedule supports the size.

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
