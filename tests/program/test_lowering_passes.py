"""Passes over programs: the result is checked, executed by the reference and compared in size."""

from __future__ import annotations

import numpy as np
import pytest

from reference.program_check import check_program
from samples.program_cases import random_case, reference_errors
from treadle.errors import ScheduleError
from treadle.program.passes import (
    merge_levels,
    recut,
)
from treadle.program.program import OperationKind, Program
from treadle.program.trees.forest_program import lower
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind


def sends(program: Program) -> int:
    return int((program.operation_kind == OperationKind.SEND).sum())


def legal(program: Program) -> list[str]:
    """Complaints about a program: checked, and run rank by rank in the order of its lists."""
    return [*map(str, check_program(program)), *reference_errors(program)]


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_messages_of_a_level_are_joined_across_channels(kind: CollectiveKind) -> None:
    fewer = 0
    for seed in range(8):
        case = random_case(seed, kind)
        program = lower(*case, in_place=bool(seed % 2), channels=3, merge=False)
        joined = merge_levels(program)
        assert legal(joined) == []
        assert int(joined.count.sum()) == int(program.count.sum())
        assert merge_levels(joined) is joined
        fewer += sends(program) - sends(joined)
    assert (fewer > 0) == kind.broadcasts


@pytest.mark.parametrize("bounds", [[0, 1], [0, 1, 1], [1, 2, 3], [0, 2, 1]])
def test_chunks_that_vanish_are_refused(bounds: list[int]) -> None:
    program = lower(*random_case(3, CollectiveKind.ALLREDUCE))
    ends = np.array(bounds + [9] * (program.n_chunks - 2) if len(bounds) == 3 else bounds, dtype=np.int64)
    with pytest.raises(ScheduleError, match="bounds that rise from 0"):
        recut(program, ends)
