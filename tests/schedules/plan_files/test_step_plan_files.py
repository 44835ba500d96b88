"""Plan files of step schedules: round trips, hostile members, and files of version 1."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from samples import forest_samples
from samples import greedy_steps as samples
from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import Direction


def mixed_plan() -> Plan:
    """Forests below 1 KB, steps above, and the same steps once more from 1 MB."""
    topology, collective, forests = forest_samples.ring_allgather()
    steps = StepSchedule(CollectiveKind.ALLGATHER, broadcast=samples.ring_steps(4, Direction.BROADCAST))
    bounds = ((0, 1023, forests), (1024, 2**20 - 1, steps), (2**20, None, steps))
    return Plan(topology, collective, tuple(PlanEntry(*row) for row in bounds), "by hand", Fraction(8))


def test_plans_refuse_steps_of_another_problem() -> None:
    plan = mixed_plan()
    steps = StepSchedule(CollectiveKind.ALLGATHER, broadcast=samples.ring_steps(5, Direction.BROADCAST))
    with pytest.raises(ScheduleError, match="a schedule for 5 ranks, the collective has 4"):
        replace(plan, entries=(PlanEntry(0, None, steps),))
    mirror = StepSchedule(CollectiveKind.REDUCE_SCATTER, reduce=samples.ring_steps(4, Direction.REDUCE))
    with pytest.raises(ScheduleError, match="a schedule for reduce-scatter"):
        replace(plan, entries=(PlanEntry(0, None, mirror),))
