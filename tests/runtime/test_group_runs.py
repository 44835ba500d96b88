"""Several groups at once on real data of their own: all elements are checked, the worst group is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shortcuts.group_plans import random_groups, without_sum
from treadle.errors import ScheduleError
from treadle.program.any_schedule import lower_groups
from treadle.program.group_lists import ProgramGroups
from treadle.runtime.measured_sizes import SweepRow, measure
from treadle.runtime.mpi_build import build_interpreter, find_mpi
from treadle.runtime.mpi_c import (
    interpreter_arguments,
    launch_environment,
    local_launch,
    measure_mpi_c,
    run_interpreter,
    written_program,
)
from treadle.schedules.collective import CollectiveKind

Measure = Callable[..., list[SweepRow]]
SIZES = [0, 36, 4096, 50_000]


def groups_of(seed: int, kind: CollectiveKind, *, in_place: bool = False, n_groups: int = 0) -> ProgramGroups:
    return lower_groups(*random_groups(seed, kind, n_groups), in_place=in_place)


@pytest.mark.parametrize("kind", [CollectiveKind.ALLREDUCE, CollectiveKind.REDUCE_SCATTER])
def test_over_mpi_all_groups_run_at_once(kind: CollectiveKind) -> None:
    groups = groups_of(2, kind, n_groups=2)
    rows = measure_mpi_c(groups, SIZES, iterations=2)
    assert [row.size_bytes for row in rows] == SIZES
    assert [(row.wrong, row.worst_group) for row in rows] == [(0, None)] * len(SIZES)


@pytest.mark.parametrize("run", [measure, measure_mpi_c])
def test_the_worst_group_is_named(run: Measure) -> None:
    groups = groups_of(5, CollectiveKind.ALLREDUCE, n_groups=3)
    (row,) = run(without_sum(groups, 1), [4096], iterations=1)
    assert row.wrong > 0
    assert row.worst_group == 1


def interpreted(mpi: Any, path: Any, n_ranks: int) -> list[Any]:
    command = [
        *local_launch(mpi, n_ranks),
        str(build_interpreter(mpi)),
        *interpreter_arguments(path, [4096], iterations=1, with_reference=True, with_rounds=True),
    ]
    return run_interpreter(command, environment=launch_environment(), n_sizes=1)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("treadle-groups 1", "treadle-groups 2", "version"),
        ("groups 2", "groups 3", "processes, one for each rank"),
        ("size ", "size 1", "expected"),
        ("group ", "group 99 ", "rank: expected a number"),
    ],
)
def test_a_malformed_file_ends_in_one_line(old: str, new: str, message: str) -> None:
    mpi, groups = find_mpi(), groups_of(5, CollectiveKind.ALLREDUCE, n_groups=2)
    with written_program(groups) as path:
        text = path.read_text(encoding="ascii")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="ascii")
        with pytest.raises(ScheduleError, match=message):
            interpreted(mpi, path, groups.n_ranks)
