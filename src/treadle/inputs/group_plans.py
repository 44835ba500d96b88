"""Plans of single groups from a plan of concurrent groups."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from treadle.errors import ScheduleError
from treadle.schedules.collective import collective_of_group
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.trees.forest_cost import algbw
from treadle.schedules.trees.group_schedule import GroupSchedule


def plan_of_group(plan: Plan, group: int) -> Plan:
    """Return the plan of one group on the entire fabric, whose other compute nodes forward.

    Parameters
    ----------
    plan : Plan
        Plan of several groups; the caller verifies it.
    group : int

    Returns
    -------
    Plan
        Its algbw is that of the group's schedule while the others are idle; it claims no optimum.

    Raises
    ------
    ScheduleError
        If the plan has no groups, or none of that number.
    """
    groups = plan.collective.groups
    if groups is None:
        raise ScheduleError(f"group {group}: the plan has no groups")
    if not 0 <= group < len(groups):
        raise ScheduleError(f"group {group}: the plan has groups 0 to {len(groups) - 1}")
    entries: list[PlanEntry] = []
    for entry in plan.entries:
        assert isinstance(entry.schedule, GroupSchedule)  # no other schedule has several groups
        last = entry.schedule.groups[group]
        entries.append(replace(entry, schedule=last))
    return Plan(
        plan.topology,
        collective_of_group(plan.topology, plan.collective, group),
        tuple(entries),
        plan.algorithm,
        algbw(plan.topology, last),
        provenance=plan.provenance,
    )


def group_name(plan: Plan, group: int) -> str:
    """Return a name of a group and its ranks for file names: ``group1-ranks1-3-5-7``.

    Many ranks are named by first, step and last if they are evenly spaced, or else by first and last.
    """
    assert plan.collective.groups is not None
    ranks = plan.collective.groups[group]
    steps = {after - before for before, after in pairwise(ranks)}
    if len(ranks) <= _FEW_RANKS:
        named = "-".join(map(str, ranks))
    elif len(steps) == 1:
        named = f"{ranks[0]}-by{steps.pop()}-to{ranks[-1]}"
    else:
        named = f"{ranks[0]}-to{ranks[-1]}"
    return f"group{group}-ranks{named}"


_FEW_RANKS = 8
