"""Programs of several groups: each as its group's alone, and all merged for the simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from shortcuts.group_plans import random_groups
from treadle.errors import ScheduleError
from treadle.program import group_lists
from treadle.program.any_schedule import lower, lower_groups
from treadle.program.group_lists import ProgramGroups, _merged, as_groups
from treadle.program.program_format import format_groups, format_program
from treadle.schedules.collective import CollectiveKind


def test_one_group_is_its_program() -> None:
    topology, collective, schedule = random_groups(3, CollectiveKind.ALLGATHER)
    program = lower_groups(topology, collective, schedule).programs[0]
    assert as_groups(program).lists is program
    assert as_groups(program).position_of(1) == (0, 1)
    assert format_groups(as_groups(program)) == format_program(program)


def test_what_does_not_fit_is_refused() -> None:
    topology, collective, schedule = random_groups(1, CollectiveKind.ALLREDUCE)
    found = lower_groups(topology, collective, schedule)
    with pytest.raises(ScheduleError, match=f"a schedule of {len(schedule.groups)} concurrent groups"):
        lower(topology, collective, schedule)
    with pytest.raises(ScheduleError, match="the schedule has"):
        lower_groups(topology, replace(collective, groups=None), schedule)
    with pytest.raises(ScheduleError, match="expected one for each"):
        ProgramGroups(found.programs[:-1], found.groups)
    with pytest.raises(ScheduleError, match="in one group"):
        ProgramGroups(found.programs, (found.groups[0],) * len(found.groups))
    with pytest.raises(ScheduleError, match="for a group of"):
        ProgramGroups(found.programs, tuple((*group, 99) for group in found.groups))
    other = lower_groups(topology, collective, schedule, in_place=True)
    with pytest.raises(ScheduleError, match="all in place or none"):
        ProgramGroups((other.programs[0], *found.programs[1:]), found.groups)
    with pytest.raises(ScheduleError, match=f"rank 99: expected 0 to {found.n_ranks - 1}"):
        found.position_of(99)


def test_groups_whose_chunks_have_no_small_common_multiple(monkeypatch: pytest.MonkeyPatch) -> None:
    topology, collective, schedule = random_groups(0, CollectiveKind.ALLGATHER)
    found = lower_groups(topology, collective, schedule)
    most = len(found.programs) * int(np.lcm.reduce([program.n_chunks for program in found.programs]))
    kinds = len({program.n_chunks for program in found.programs})
    monkeypatch.setattr(group_lists, "_MOST_ADDRESSES", most)
    assert _merged(found.programs, found.groups)
    monkeypatch.setattr(group_lists, "_MOST_ADDRESSES", most - 1)
    with pytest.raises(ScheduleError) as refused:
        _merged(found.programs, found.groups)
    assert str(refused.value) == (
        f"the groups' programs have {kinds} different numbers of chunks, whose common multiple is too large "
        "to simulate them concurrently"
    )
