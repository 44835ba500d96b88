"""All ranks of a schedule, or one box that stands for all of them: from how many ranks on."""

from __future__ import annotations

import pytest

from samples.simulation_samples import star
from treadle.errors import ScheduleError
from treadle.inputs.problem import Problem, make_problem
from treadle.program.any_schedule import lower
from treadle.program.trees.box_program import lower_box
from treadle.schedulers.generation import generate
from treadle.schedulers.schedulers import find_scheduler
from treadle.schedules.schedule import Schedule, written_out
from treadle.schedules.trees.forest import ForestSchedule
from treadle.simulation import schedule_tasks
from treadle.simulation.schedule_tasks import schedule_graph
from treadle.simulation.tasks import task_graph
from treadle.topologies.topology import Topology


def made(fabric: str | Topology, kind: str, algorithm: str) -> tuple[Problem, Schedule]:
    problem = make_problem(fabric, kind)
    return problem, generate(problem, find_scheduler(algorithm)).schedule


def test_more_ranks_than_the_most_are_one_box(monkeypatch: pytest.MonkeyPatch) -> None:
    assert schedule_tasks.MOST_WHOLE == 512
    problem, schedule = made("dgx_a100(3, 2)", "allreduce", "forestcoll")
    topology, collective = problem.topology, problem.collective
    whole = task_graph(topology, lower(topology, collective, schedule))
    forests = written_out(schedule)
    assert isinstance(forests, ForestSchedule)
    box = lower_box(topology, collective, forests)
    assert box is not None
    part = task_graph(topology, box.program, partner=box.partner, link_of=box.link_of)
    assert part.n_tasks < whole.n_tasks
    for most, expected in ((5, part), (6, whole), (7, whole)):
        monkeypatch.setattr(schedule_tasks, "MOST_WHOLE", most)
        for may_be_whole in (True, False):
            found = schedule_graph(topology, collective, schedule, may_be_whole=may_be_whole)
            assert found.resource.tolist() == expected.resource.tolist()
            assert found.edge_target.tolist() == expected.edge_target.tolist()
            assert found.chunks.tolist() == expected.chunks.tolist()


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


def test_steps_are_always_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, schedule = made("ring(4)", "allgather", "bfb")
    monkeypatch.setattr(schedule_tasks, "MOST_WHOLE", 3)
    whole = task_graph(problem.topology, lower(problem.topology, problem.collective, schedule))
    found = schedule_graph(problem.topology, problem.collective, schedule, may_be_whole=False)
    assert found.resource.tolist() == whole.resource.tolist()
