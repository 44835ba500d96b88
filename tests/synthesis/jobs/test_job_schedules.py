"""Schedules of whole numbers of ways: trees, routes, and how many there may be."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from treadle.errors import InfeasibleError
from treadle.schedules.alltoall.routes import MAX_UNITS, RouteSchedule
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.jobs.job_paths import JobPath, JobPaths
from treadle.synthesis.jobs.job_schedules import schedule_of
from treadle.topologies import parse

HALF = Fraction(1, 2)


def routes() -> JobPaths:
    """On a bidirectional ring of 4: from 0 to 2 both ways round, and from 3 to 0."""
    ring = parse("ring(4)")
    link = {(int(t), int(h)): i for i, (t, h) in enumerate(zip(ring.tails, ring.heads, strict=True))}
    one, other, back = ((link[0, 1], link[1, 2]), (link[0, 3], link[3, 2]), (link[3, 0],))
    ways = (
        JobPath(3, 12, Fraction(1), {}, path=back, target=0),
        JobPath(0, 2, HALF, {}, path=other, target=2),
        JobPath(0, 2, HALF, {}, path=one, target=2),
        JobPath(0, 1, HALF, {}, path=one[:1], target=1),
    )
    return JobPaths(Collective(CollectiveKind.ALLTOALL, (0, 1, 2, 3)), ways, {}, 4)


def test_up_to_so_many_chunks_are_scheduled() -> None:
    ring = parse("ring(4)")
    made = schedule_of(ring, routes(), [MAX_UNITS, 0, MAX_UNITS, 0], Fraction(MAX_UNITS))
    assert isinstance(made, RouteSchedule)
    assert made.n_chunks == MAX_UNITS
    message = (
        f"the exact routes need {MAX_UNITS + 1} chunks for each unit of demand, schedules have up to "
        f"{MAX_UNITS}; without --exact they are rounded"
    )
    with pytest.raises(InfeasibleError, match=f"^{re.escape(message)}$"):
        schedule_of(ring, routes(), [1, 0, 1, 0], Fraction(MAX_UNITS + 1))
