"""Kinds of schedules that plans have."""

from __future__ import annotations

from typing import TypeAlias

from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import ForestSchedule
from treadle.schedules.trees.group_schedule import GroupSchedule

ExplicitSchedule: TypeAlias = ForestSchedule | StepSchedule | ExchangeSchedule | RouteSchedule | TimedRoutes
"""Schedules that list all data movements."""

Schedule: TypeAlias = ExplicitSchedule | FactoredSchedule | GroupSchedule
"""All have `kind` and `n_ranks`; use `isinstance` where a stage needs more."""

MAX_EXPANDED_RANKS = 1024
"""Most ranks of a factored schedule that is written out: N ranks have at least N trees of N parents."""


def written_out(schedule: Schedule) -> ExplicitSchedule:
    """Return the schedule itself, or all trees of a factored one.

    Raises
    ------
    InfeasibleError
        If a factored schedule has more than `MAX_EXPANDED_RANKS` ranks.
    ScheduleError
        If it has several groups, each of which is a schedule of its own.
    """
    if isinstance(schedule, GroupSchedule):
        raise ScheduleError(
            f"a schedule of {len(schedule.groups)} concurrent groups; expected a single group"
        )
    if not isinstance(schedule, FactoredSchedule):
        return schedule
    if schedule.n_ranks > MAX_EXPANDED_RANKS:
        raise InfeasibleError(
            f"a factored plan of {schedule.n_ranks} ranks: all its trees are written out for at most "
            f"{MAX_EXPANDED_RANKS} ranks; lower one rank at a time (treadle lower --rank R) or use a smaller "
            f"fabric"
        )
    return schedule.explicit()


def unit_trees(schedule: Schedule) -> int | None:
    """Return the number of unit trees of all groups; None for schedules without trees."""
    if isinstance(schedule, GroupSchedule):
        return sum(one.total_units for one in schedule.groups)
    return schedule.total_units if isinstance(schedule, ForestSchedule | FactoredSchedule) else None
