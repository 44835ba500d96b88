"""Programs of several groups: each as its group's alone, and all merged for the simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reference.program_check import check_program
from samples.program_cases import reference_errors
from shortcuts.group_plans import random_groups, solved_alone
from treadle.errors import ScheduleError
from treadle.program import group_lists
from treadle.program.any_schedule import lower, lower_groups
from treadle.program.group_lists import GroupLists, ProgramGroups, _merged, as_groups
from treadle.program.operation_lists import OperationKind
from treadle.program.program import Program
from treadle.program.program_format import format_groups, format_program
from treadle.runtime.order import match_messages
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind
from treadle.schedules.mesh import Mesh


@pytest.mark.parametrize("kind", SPANNING_KINDS)
@pytest.mark.parametrize("in_place", [False, True])
def test_each_group_has_a_program_of_its_own(kind: CollectiveKind, in_place: bool) -> None:
    for seed in range(3):
        topology, collective, schedule = random_groups(seed, kind)
        found = lower_groups(topology, collective, schedule, in_place=in_place)
        assert found.groups == collective.groups
        for group, program in zip(collective.groups or (), found.programs, strict=True):
            assert program.nodes.tolist() == [collective.ranks[rank] for rank in group]
            assert check_program(program) == ()
            assert reference_errors(program) == []


def messages(program: Program, rank_of: tuple[int, ...], group: int) -> set[tuple[object, ...]]:
    """Everything that a send says, of the ranks of all groups; chunks as shares of the buffer."""
    partner = match_messages(program)
    owner = program.operation_rank
    return {
        (
            group,
            rank_of[owner[send]],
            rank_of[program.peer[send]],
            int(program.channel[send]),
            int(program.first[send]) / program.n_chunks,
            int(program.count[send]) / program.n_chunks,
            tuple(program.links(int(program.path[send])).tolist()),
            tuple(sorted(place(program, wait) for wait in program.waits_of(send).tolist())),
            tuple(sorted(place(program, wait) for wait in program.waits_of(int(partner[send])).tolist())),
        )
        for send in np.flatnonzero(program.operation_kind == OperationKind.SEND).tolist()
    }


def place(program: Program, operation: int) -> int:
    """Of an operation in its rank's list."""
    return operation - int(program.operation_offset[program.operation_rank[operation]])


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_merged_programs_say_what_each_says(kind: CollectiveKind) -> None:
    scales = set()
    for seed in range(5):
        topology, collective, schedule = random_groups(seed, kind)
        found = lower_groups(topology, collective, schedule, channels=1 + seed % 2)
        lists = found.lists
        assert isinstance(lists, GroupLists)
        assert lists.nodes.tolist() == list(collective.ranks)
        partner, owner, p = match_messages(lists), lists.operation_rank, lists.n_chunks
        merged = {
            (
                int(lists.group_of[owner[send]]),
                int(owner[send]),
                int(lists.peer[send]),
                int(lists.channel[send]),
                (int(lists.first[send]) - int(lists.group_of[owner[send]]) * p) / p,
                int(lists.count[send]) / p,
                tuple(lists.links(int(lists.path[send])).tolist()),
                tuple(sorted(place(lists, wait) for wait in lists.waits_of(send).tolist())),
                tuple(sorted(place(lists, wait) for wait in lists.waits_of(int(partner[send])).tolist())),
            )
            for send in np.flatnonzero(lists.operation_kind == OperationKind.SEND).tolist()
        }
        apart: set[tuple[object, ...]] = set()
        for number, (program, group) in enumerate(zip(found.programs, found.groups, strict=True)):
            apart |= messages(program, group, number)
            scales.add(p // program.n_chunks)
        assert merged == apart
        assert lists.n_operations == sum(program.n_operations for program in found.programs)
    assert len(scales) > 2, "no case has groups of different chunks"


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


def test_paths_may_pass_ranks_of_other_groups() -> None:
    plan = solved_alone("ring:4", CollectiveKind.ALLGATHER, Mesh((2, 2), ("a", "b")), "a", forward=True)
    found = lower_groups(plan.topology, plan.collective, plan.entries[0].schedule)
    assert [program.nodes.tolist() for program in found.programs] == [[0, 2], [1, 3]]
    assert all(len(program.links(path)) == 2 for program in found.programs for path in range(program.n_paths))
