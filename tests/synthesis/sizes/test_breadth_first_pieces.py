"""Breadth-first broadcast in pieces: verified, equal to the plain one piece by piece, quicker, data."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.planning import run, simulate, solve
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.sizes.spanning_exchanges import KINDS

ODD = [0, 4, 28, 1020, 4 * 997]


@pytest.mark.parametrize("fabric", ["torus(3, 4)", "ring(5)", "generalized_kautz(2, 7)", "hypercube(3)"])
@pytest.mark.parametrize(("name", "parts"), [("bfb-pieces", 1), ("bfb-urgent", 3)])
def test_direct_fabrics(name: str, parts: int, fabric: str) -> None:
    for kind in KINDS:
        found, plain = (solve(fabric, kind, algorithm=one) for one in (name, "bfb"))
        assert found.report.is_ok
        (entry,), (other,) = found.plan.entries, plain.plan.entries
        assert isinstance(entry.schedule, StepSchedule)
        assert isinstance(other.schedule, StepSchedule)
        for steps, one in zip(entry.schedule.phases, other.schedule.phases, strict=True):
            assert steps.n_steps == parts * (one.n_steps + 1)
            assert steps.n_sends == 2 * one.n_sends
        assert not any(row.wrong for row in run(found.plan, ODD, iterations=1).rows)


def test_pieces_overlap_on_a_torus() -> None:
    fabric = 'torus(8, 8, bandwidth="50GB/s")'
    times = [
        float(
            simulate(solve(fabric, "allreduce", algorithm=name).plan, "4M", cost_model="reference")
            .rows[0]
            .time
        )
        for name in ("bfb-urgent", "bfb-pieces", "bfb")
    ]
    assert times[0] < 50.2e-6
    assert times[1] < 52.1e-6
    assert times[1] < 0.93 * times[2]


@pytest.mark.parametrize("name", ["bfb-pieces", "bfb-urgent"])
def test_what_it_refuses(name: str) -> None:
    with pytest.raises(ScheduleError, match=name):
        solve("dgx_a100(1)", "allgather", algorithm=name)
    with pytest.raises(ScheduleError, match="at least 1 piece"):
        solve("ring(4)", "allgather", algorithm=name, chunks=0)


def test_one_piece_is_the_plain_one() -> None:
    (entry,) = solve("ring(4)", "allgather", algorithm="bfb-pieces", chunks=1).plan.entries
    (plain,) = solve("ring(4)", "allgather", algorithm="bfb").plan.entries
    assert isinstance(entry.schedule, StepSchedule)
    assert isinstance(plain.schedule, StepSchedule)
    assert entry.schedule == plain.schedule
    assert np.array_equal(entry.schedule.phases[0].low, plain.schedule.phases[0].low)
