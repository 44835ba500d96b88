"""Plans of several groups, one group at a time."""

from __future__ import annotations

import pytest

from shortcuts.group_plans import solved_alone
from treadle import planning
from treadle.errors import ScheduleError
from treadle.inputs.group_plans import group_name, plan_of_group
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.schedules.trees.forest_cost import algbw
from treadle.schedules.trees.group_schedule import GroupSchedule


def test_a_group_is_a_plan_on_the_whole_fabric() -> None:
    plan = solved_alone("torus:3,4", CollectiveKind.ALLREDUCE, Mesh((3, 4), ("a", "b")), "a")
    schedule = plan.entries[0].schedule
    assert isinstance(schedule, GroupSchedule)
    for number in range(4):
        part = plan_of_group(plan, number)
        assert part.collective.ranks == (number, number + 4, number + 8)
        assert part.algbw == algbw(plan.topology, schedule.groups[number]) >= plan.algbw
        assert planning.verify(part).is_ok


def test_what_there_is_not_is_refused() -> None:
    plan = solved_alone("ring:4", CollectiveKind.ALLGATHER, Mesh((2, 2), ("a", "b")), "b")
    with pytest.raises(ScheduleError, match="group 2: the plan has groups 0 to 1"):
        plan_of_group(plan, 2)
    with pytest.raises(ScheduleError, match="group 0: the plan has no groups"):
        plan_of_group(planning.solve("ring:4", "allgather").plan, 0)


def test_names_of_groups_stay_short() -> None:
    mesh = Mesh((12, 2), ("a", "b"))
    even = solved_alone("ring:24", CollectiveKind.ALLGATHER, mesh, "a", forward=True)
    assert group_name(even, 1) == "group1-ranks1-by2-to23"
    order = (*range(2, 24), 0, 1)
    uneven = solved_alone(
        "ring:24", CollectiveKind.ALLGATHER, Mesh((12, 2), ("a", "b"), order), "a", forward=True
    )
    assert group_name(uneven, 0) == "group0-ranks2-to0"
    few = solved_alone("ring:4", CollectiveKind.ALLGATHER, Mesh((2, 2), ("a", "b")), "b")
    assert group_name(few, 1) == "group1-ranks2-3"
