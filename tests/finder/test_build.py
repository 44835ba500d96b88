"""Fabrics that the search builds by adding every link's opposite: both schedules, verified."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.finder.build import build
from treadle.finder.construction import Base, ScheduleMethod, WithReverse
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import Direction
from treadle.verification.schedules import verify


@pytest.mark.parametrize(
    ("base", "algbw"),
    [
        ("directed_circulant(8, 1, 3)", Fraction(32, 7)),
        ("de_bruijn(2, 3)", Fraction(16, 7)),
        ("generalized_kautz(2, 9)", Fraction(18, 7)),
    ],
)
@pytest.mark.parametrize("direction", list(Direction))
def test_with_its_reverse(base: str, algbw: Fraction, direction: Direction) -> None:
    """Half of each shard on the graph, half on its transpose (section A.1.6)."""
    of = WithReverse(Base(base, base, ScheduleMethod.BFB, "test"))
    topology, steps = build(of, direction)
    if direction is Direction.BROADCAST:
        schedule = StepSchedule(CollectiveKind.ALLGATHER, broadcast=steps)
    else:
        schedule = StepSchedule(CollectiveKind.REDUCE_SCATTER, reduce=steps)
    report = verify(topology, on_all_ranks(topology, schedule.kind), schedule)
    assert report.violations == ()
    assert report.algbw == algbw
