"""What lowering refuses, word by word; files of sets; and which other numbers of trees are looked at."""

from __future__ import annotations

from typing import Any

import pytest

from treadle import planning
from treadle.api.lower import _group_numbers
from treadle.errors import InfeasibleError, ScheduleError, TreadleError
from treadle.lowering.lower import _lowered_group
from treadle.lowering.lowered import LoweredGroup
from treadle.planning import lower, lower_groups, lower_set, solve


def said(call: Any, error: type[TreadleError] = ScheduleError) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("kind", ["allgather", "allreduce", "alltoall"])
def test_nodes_that_forward_have_no_program(kind: str) -> None:
    """The ends of a path of three reach each other over the middle."""
    words: Any = {} if kind == "alltoall" else {"algorithm": "forestcoll"}
    plan = solve("path:3", kind, ranks="0,2", forward=True, **words).plan
    assert said(lambda: lower(plan), InfeasibleError) == (
        "the plan's paths pass compute node 'n1', which is not a rank; msccl-xml has no program for it; "
        "solve without --forward"
    )


def grouped() -> planning.SolveResult:
    return solve("ring:4", "allgather", mesh="2,2", axes="1")


def test_groups_have_a_text_each() -> None:
    plan = grouped().plan
    assert _group_numbers(plan) == [0, 1]
    assert _group_numbers(solve("ring:4", "allgather").plan) == [None]
    assert _lowered_group(plan, 1) == LoweredGroup(1, (2, 3), "group1-ranks2-3")
    assert _lowered_group(plan, None) is None
    made = lower_groups(plan)
    assert [one.group for one in made] == [_lowered_group(plan, number) for number in (0, 1)]
    assert lower(plan, group=1).group == made[1].group
    assert lower(solve("ring:4", "allgather")).group is None
    for call in (lambda: lower(plan, group=2), lambda: lower(plan), lambda: lower_groups(plan, paths=["a"])):
        assert said(call)
    assert said(lambda: lower_set(plan)) == "the plan has 2 concurrent groups, and a set has one"
    assert lower_set(plan, group=1).files_by_range[0].n_ranks == 2
