"""Bases that breadth-first broadcasts cannot do: table A.3's values, and damaged files."""

from __future__ import annotations

from fractions import Fraction

import pytest

from reference.step_times import t_b
from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.exact import bases
from treadle.topologies import parse
from treadle.verification.steps.step_check import verify_steps

TABLE_A_3 = {
    "diamond()": (3, Fraction(7, 8)),
    "modified_de_bruijn(2, 3)": (4, Fraction(7, 8)),
    "modified_de_bruijn(2, 4)": (5, Fraction(15, 16)),
    "modified_de_bruijn(3, 2)": (3, Fraction(8, 9)),
    "modified_de_bruijn(4, 2)": (3, Fraction(15, 16)),
}


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("name", TABLE_A_3)
def test_table_a_3(name: str, direction: Direction) -> None:
    topology, steps = bases.base_schedule(name, direction)
    if direction is Direction.BROADCAST:
        kind, schedule = CollectiveKind.ALLGATHER, StepSchedule(CollectiveKind.ALLGATHER, broadcast=steps)
    else:
        kind, schedule = (
            CollectiveKind.REDUCE_SCATTER,
            StepSchedule(CollectiveKind.REDUCE_SCATTER, reduce=steps),
        )
    assert (steps.n_steps, t_b(topology, schedule)) == TABLE_A_3[name]
    assert topology == parse(name)
    assert not verify_steps(topology, on_all_ranks(topology, kind), schedule).n_violations


def test_spelling_is_free_and_strangers_are_refused() -> None:
    assert bases.base_schedule("modified-de-bruijn:2,3", Direction.BROADCAST)[1].n_steps == 4
    with pytest.raises(ScheduleError, match=r"no schedule is shipped for ring\(4\)"):
        bases.base_schedule("ring(4)", Direction.BROADCAST)
