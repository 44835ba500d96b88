"""All ranks of a schedule, or one box that stands for all of them: from how many ranks on."""

from __future__ import annotations

import pytest

from samples.simulation_samples import star
from treadle.errors import ScheduleError
from treadle.inputs.problem import Problem, make_problem
from treadle.program.any_schedule import lower
from treadle.schedulers.generation import generate
from treadle.schedulers.schedulers import find_scheduler
from treadle.schedules.schedule import Schedule
from treadle.simulation import schedule_tasks
from treadle.simulation.schedule_tasks import schedule_graph
from treadle.simulation.tasks import task_graph
from treadle.topologies.topology import Topology


def made(fabric: str | Topology, kind: str, algorithm: str) -> tuple[Problem, Schedule]:
    problem = make_problem(fabric, kind)
    return problem, generate(problem, find_scheduler(algorithm)).schedule


def test_boxes_that_differ_are_whole_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A star has no boxes."""
    problem, schedule = made(star(4), "allgather", "forestcoll")
    topology, collective = problem.topology, problem.collective
    monkeypatch.setattr(schedule_tasks, "MOST_WHOLE", 3)
    whole = task_graph(topology, lower(topology, collective, schedule))
    found = schedule_graph(topology, collective, schedule)
    assert found.resource.tolist() == whole.resource.tolist()
    with pytest.raises(ScheduleError) as caught:
        schedule_graph(topology, collective, schedule, may_be_whole=False)
    assert str(caught.value) == ("boxes differ in what they do: more than 3 ranks are simulated by one box")
