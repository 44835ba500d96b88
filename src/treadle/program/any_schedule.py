"""Any schedule to a program, and those of groups to one for each."""

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
    """Turn a schedule into a program, by its type.

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
        Send adjacent chunks as one message where nothing tells them apart.

    Raises
    ------
    ScheduleError
        If the schedule does not fit the collective.
    InfeasibleError
        If programs cannot express it, or a factored schedule is of too many ranks.
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
    """A program for each group of ranks; of a schedule of one group, that one alone.

    Parameters and errors are those of `lower`.
    """
    options: dict[str, Any] = {"channels": channels, "in_place": in_place, "merge": merge}
    if not isinstance(schedule, GroupSchedule):
        return as_groups(lower(topology, collective, schedule, **options))
    if collective.groups is None or len(collective.groups) != len(schedule.groups):
        raise ScheduleError(
            f"the schedule is of {len(schedule.groups)} groups, the collective of {collective.n_groups or 1}"
        )
    programs = tuple(
        lower_trees(topology, collective_of_group(topology, collective, number), one, **options)
        for number, one in enumerate(schedule.groups)
    )
    return ProgramGroups(programs, collective.groups)
