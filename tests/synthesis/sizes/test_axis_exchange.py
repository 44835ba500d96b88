"""Sums along the axes of a torus: verified, moving data, quicker than one axis at a time."""

from __future__ import annotations

import pytest

from treadle.planning import run, simulate, solve
from treadle.schedules.steps.steps import StepSchedule

ODD = [0, 4, 28, 1020, 4 * 997]


@pytest.mark.parametrize(
    ("fabric", "exchanged", "steps"),
    [
        ("torus(3, 4)", None, 2),
        ("torus(2, 3, 4)", None, 3),
        ("ring(5)", (), 2),
        ("torus(3, 3)", (2,), 3),
        ("torus(4, 4)", (), 4),
        ("torus(3, 3, 3)", (2, 3), 4),
    ],
)
def test_tori(fabric: str, exchanged: tuple[int, ...] | None, steps: int) -> None:
    options = {} if exchanged is None else {"exchanged": exchanged}
    found = solve(fabric, "allreduce", algorithm="axis-exchange", **options)
    assert found.report.is_ok
    (entry,) = found.plan.entries
    assert isinstance(entry.schedule, StepSchedule)
    assert entry.schedule.n_steps == steps
    assert not any(row.wrong for row in run(found.plan, ODD, iterations=1).rows)


def test_all_links_work_at_once() -> None:
    """The axes one after another take longer by the bytes of one."""
    fabric = 'torus(8, 8, bandwidth="50GB/s")'

    def microseconds(algorithm: str, **options: object) -> float:
        plan = solve(fabric, "allreduce", algorithm=algorithm, **options).plan  # type: ignore[arg-type]
        return float(simulate(plan, "16K", cost_model="reference").rows[0].time) * 1e6

    alone = microseconds("factor-allreduce", factors=(8, 8), exchanged=(1, 2))
    assert microseconds("axis-exchange") < 6.7 < 8.4 < alone
