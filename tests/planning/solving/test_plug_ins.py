"""Schedulers of others: by decorator, by entry point, and broken ones."""

from __future__ import annotations

import pytest

from samples.table import table_restored
from treadle import scheduler
from treadle.errors import ScheduleError
from treadle.planning import compare, solve
from treadle.schedules.collective import Collective
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import ForestSchedule
from treadle.synthesis.trees.baselines.ring import ring
from treadle.topologies.topology import Topology


def test_faults_of_strangers_are_a_line() -> None:
    with table_restored():

        @scheduler("wrong-form", form="trees", collectives=["allgather"])
        def wrong_form(topology: Topology, collective: Collective) -> StepSchedule:
            schedule = solve(topology, collective, algorithm="bfb").plan.entries[0].schedule
            assert isinstance(schedule, StepSchedule)
            return schedule

        @scheduler("crashing", form="trees", collectives=["allgather"])
        def crashing(topology: Topology, collective: Collective) -> ForestSchedule:
            raise KeyError("what\nis this")

        def stumbling(topology: Topology, collective: Collective) -> None:
            raise ZeroDivisionError

        @scheduler("needy", form="trees", collectives=["allgather"], requirements=[stumbling])
        def needy(topology: Topology, collective: Collective) -> ForestSchedule:
            return ring(topology, collective)

        with pytest.raises(ScheduleError, match=r"returned StepSchedule, expected .* trees: ForestSchedule"):
            solve("ring:4", "allgather", algorithm="wrong-form")
        with pytest.raises(
            ScheduleError, match=rf"crashing \(of {__name__}\): failed with KeyError: .*is this"
        ):
            solve("ring:4", "allgather", algorithm="crashing")
        refusals = {row.algorithm: row.refusal for row in compare("ring:4", "allgather").rows}
        assert "KeyError" in refusals["crashing"]
        assert "ZeroDivisionError" in refusals["needy"]
        assert refusals["forestcoll"] == ""
