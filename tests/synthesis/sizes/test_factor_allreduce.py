"""Allreduces factor by factor: every factoring and choice of exchanges, damaged ones, times, files, data."""

from __future__ import annotations

import pytest

from shortcuts.switched_ranks import on_a_switch
from treadle.errors import InfeasibleError
from treadle.planning import run, solve

ODD = [0, 4, 28, 1020, 4 * 997]


def test_in_place_where_the_input_is_not_what_is_exchanged() -> None:
    fabric = on_a_switch(6)
    plan = solve(fabric, "allreduce", algorithm="factor-allreduce", factors=(3, 2), exchanged=(2,)).plan
    assert not any(row.wrong for row in run(plan, ODD, iterations=1, in_place=True).rows)
    plan = solve(fabric, "allreduce", algorithm="factor-allreduce").plan
    with pytest.raises(InfeasibleError, match="cannot run in place"):
        run(plan, ODD, iterations=1, in_place=True)
