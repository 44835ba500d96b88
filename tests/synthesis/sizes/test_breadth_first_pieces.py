"""Breadth-first broadcast in pieces: verified, equal to the plain one piece by piece, quicker, data."""

from __future__ import annotations

import pytest

from treadle.errors import ScheduleError
from treadle.planning import run, solve
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.trees.baselines.embedding import GATHERING

ODD = [0, 4, 28, 1020, 4 * 997]


@pytest.mark.parametrize("fabric", ["torus(3, 4)", "ring(5)", "generalized_kautz(2, 7)", "hypercube(3)"])
@pytest.mark.parametrize("parts", [1, 3])
def test_direct_fabrics(parts: int, fabric: str) -> None:
    for kind in GATHERING:
        found = solve(fabric, kind, algorithm="bfb-pieces", parts=parts)
        plain = solve(fabric, kind, algorithm="bfb")
        assert found.report.is_ok
        (entry,), (other,) = found.plan.entries, plain.plan.entries
        assert isinstance(entry.schedule, StepSchedule)
        assert isinstance(other.schedule, StepSchedule)
        for steps, one in zip(entry.schedule.phases, other.schedule.phases, strict=True):
            assert steps.n_steps == parts * (one.n_steps + 1)
            assert steps.n_sends == 2 * one.n_sends
        assert not any(row.wrong for row in run(found.plan, ODD, iterations=1).rows)


def test_what_it_refuses() -> None:
    with pytest.raises(ScheduleError, match="bfb-pieces"):
        solve("dgx_a100(1)", "allgather", algorithm="bfb-pieces")
    with pytest.raises(ScheduleError, match="at least 1 part of a shard"):
        solve("ring(4)", "allgather", algorithm="bfb-pieces", chunks=0)
    with pytest.raises(ScheduleError, match="parts of a step: expected at least 1, found 0"):
        solve("ring(4)", "allgather", algorithm="bfb-pieces", parts=0)
