"""Throughput of groups at once: loads add up, link by link."""

from __future__ import annotations

import pytest

from treadle.errors import ScheduleError
from treadle.planning import solve
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.group_schedule import GroupSchedule


def test_groups_are_of_one_kind_and_size() -> None:
    three, four = (solve(f"ring:{n}", "allgather", trees=1).plan.entries[0].schedule for n in (3, 4))
    turned = solve("ring:3", "reduce-scatter", trees=1).plan.entries[0].schedule
    kind = CollectiveKind.ALLGATHER
    assert GroupSchedule(kind, (three, three)).n_ranks == 6
    for groups, said in (
        ((), "no group; expected at least one"),
        ((three, turned), "group 1 is for reduce-scatter, not allgather"),
        ((three, three, four), "group 2 has 4 ranks, the first 3"),
    ):
        with pytest.raises(ScheduleError) as caught:
            GroupSchedule(kind, groups)
        assert str(caught.value) == f"group schedule: {said}"
