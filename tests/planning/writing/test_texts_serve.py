"""Which sizes a text serves, by a selector of the tests' own that reads nothing but the text."""

from __future__ import annotations

from functools import cache

import pytest

from treadle import planning
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.plan import Plan


@cache
def plan_of(fabric: str, collective: str, trees: int | None = None) -> Plan:
    return planning.solve(fabric, collective, trees=trees).plan


@pytest.mark.parametrize("to", ["msccl-xml", "mscclpp-json"])
def test_chunks_can_be_asked_for(to: str) -> None:
    plan = plan_of("hypercube(3)", "allgather", 3)
    result = planning.lower(plan, to=to, chunks=5)
    assert (result.n_chunks, result.plan_chunks) == (8 * 5, 8 * 3)
    assert result.faults == ()
    assert result.rounding_loss > 0
    with pytest.raises(InfeasibleError, match="2 chunks are less than the plan's 3"):
        planning.lower(plan, to=to, chunks=2)
    for chunks in (0, 2**21, "fine"):
        with pytest.raises(ScheduleError, match=f"--chunks {chunks}: expected auto, plan or 1 to 1048576"):
            planning.lower(plan, to=to, chunks=chunks)
