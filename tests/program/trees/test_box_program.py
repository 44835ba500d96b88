"""One box that stands for all takes as long as all of them, and stands for none that differs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from treadle.inputs.problem import make_problem
from treadle.planning import as_cost_model, solve, solve_sizes
from treadle.program.any_schedule import lower
from treadle.program.operation_lists import OperationKind
from treadle.program.trees.box_program import lower_box
from treadle.schedulers.generation import generate
from treadle.schedulers.schedulers import find_scheduler
from treadle.schedulers.sizes import selection
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.schedule import written_out
from treadle.schedules.trees.forest import ForestSchedule
from treadle.simulation import schedule_tasks
from treadle.simulation.alpha_beta import alpha_beta_curve
from treadle.simulation.clock import Clock
from treadle.simulation.costs.message_prices import protocol_options
from treadle.simulation.messages import seconds_below
from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.tasks import task_graph


def made(fabric: str, collective: str, algorithm: str) -> ForestSchedule:
    problem = make_problem(fabric, collective)
    schedule = written_out(generate(problem, find_scheduler(algorithm)).schedule)
    assert isinstance(schedule, ForestSchedule)
    return schedule


@pytest.mark.parametrize(
    ("fabric", "collective", "algorithm"),
    [
        ("dgx_h100:3", "allgather", "three-stage"),
        ("dgx_a100(4, 4)", "reduce-scatter", "rail-bruck"),
        ("dgx_a100(3, 2)", "allreduce", "forestcoll"),
        ("leaf_spine(4, 4)", "reduce-scatter", "forestcoll"),
        ("dgx_h100:3", "allreduce", "hierarchical-ring"),
    ],
)
def test_one_box_takes_as_long_as_all(fabric: str, collective: str, algorithm: str) -> None:
    problem, schedule = make_problem(fabric, collective), made(fabric, collective, algorithm)
    topology = problem.topology
    box = lower_box(topology, problem.collective, schedule)
    assert box is not None
    one = task_graph(topology, box.program, partner=box.partner, link_of=box.link_of)
    whole = task_graph(topology, lower(topology, problem.collective, schedule))
    assert whole.n_tasks >= one.n_tasks * 3
    (options,) = protocol_options(SimulationOptions(alpha_ns=0), as_cost_model("reference"))
    for size, slices in ((2**10, 1), (2**20, 2), (2**28, 4)):
        for ours, theirs in ((one, whole), (one.coalesced, whole.coalesced)):
            sliced = replace(options, slices=slices)
            found = [seconds_below(Clock(graph, sliced), size, sliced) for graph in (ours, theirs)]
            assert found[0] == pytest.approx(found[1], rel=1e-9)


@pytest.mark.parametrize(
    ("fabric", "collective"),
    [
        ("dgx_h100:4", "allgather"),
        ("dgx_h100:5", "allreduce"),
        ("leaf_spine(4, 2, oversubscription=2)", "reduce-scatter"),
        ("pods(3, 4, gpus_per_box=4)", "allreduce"),
    ],
)
def test_factored_trees_need_not_be_written_out(fabric: str, collective: str) -> None:
    """Boxes of a pod are no turns of those of another one, so a pod stands for all pods."""
    plan = solve(fabric, collective, form="factored").plan
    assert plan is not None
    topology, schedule = plan.topology, plan.entries[0].schedule
    assert isinstance(schedule, FactoredSchedule)
    box = lower_box(topology, plan.collective, schedule)
    assert box is not None
    one = task_graph(topology, box.program, partner=box.partner, link_of=box.link_of)
    explicit = written_out(schedule)
    whole = task_graph(topology, lower(topology, plan.collective, explicit))
    assert whole.n_tasks >= one.n_tasks * 3
    (options,) = protocol_options(SimulationOptions(alpha_ns=0), as_cost_model("reference"))
    for size, slices in ((2**10, 1), (2**28, 4)):
        sliced = replace(options, slices=slices)
        found = [seconds_below(Clock(graph, sliced), size, sliced) for graph in (one, whole)]
        assert found[0] == pytest.approx(found[1], rel=1e-9)
    curves = [alpha_beta_curve(topology, plan.collective, form, alpha_ns=7) for form in (schedule, explicit)]
    assert curves[0](2**20) == curves[1](2**20)


def test_both_ends_of_a_message_are_partners() -> None:
    problem = make_problem("dgx_a100(3, 2)", "allreduce")
    box = lower_box(problem.topology, problem.collective, made("dgx_a100(3, 2)", "allreduce", "rail"))
    assert box is not None
    program, sends = box.program, box.program.operation_kind == OperationKind.SEND
    assert np.array_equal(box.partner[box.partner[sends]], np.flatnonzero(sends))
    assert np.array_equal(program.count[box.partner[sends]], program.count[sends])
    assert program.operation_rank.max() == 1
    assert (program.path[sends] >= 0).all()
    assert (program.path[~sends] == -1).all()
    away = (program.peer[sends] - program.operation_rank[sends]) // 2 * 2
    back = (program.operation_rank[box.partner[sends]] - program.peer[box.partner[sends]]) // 2 * 2
    assert np.array_equal(away % 6 // 2, back % 6 // 2), "as many boxes on as the other end is back"


def test_copies_have_no_partner() -> None:
    problem = make_problem("dgx_h100:3", "allgather")
    box = lower_box(problem.topology, problem.collective, made("dgx_h100:3", "allgather", "three-stage"))
    assert box is not None
    copies = box.program.operation_kind == OperationKind.COPY
    assert np.array_equal(box.partner == -1, copies)
    assert copies.sum() == 8, "each rank of a box stores its own shard"


def test_trees_that_differ_by_box_have_no_such_part() -> None:
    """One leaf hung elsewhere, and recursive doubling, whose partners are no turns of one another."""
    problem, schedule = (
        make_problem("dgx_h100:4", "allgather"),
        made("dgx_h100:4", "allgather", "three-stage"),
    )
    forest = schedule.broadcast
    assert forest is not None
    assert lower_box(problem.topology, problem.collective, schedule) is not None
    doubling = made("dgx_h100:4", "allgather", "halving-doubling")
    assert lower_box(problem.topology, problem.collective, doubling) is None
    parent = forest.parent.copy()
    parent[9, 10], parent[9, 11] = parent[9, 11], 10  # a root of the second box; the paths stay
    changed = replace(schedule, broadcast=replace(forest, parent=parent))
    assert lower_box(problem.topology, problem.collective, changed) is None
    moved = forest.entry_path.copy()
    moved[[-1, -2]] = moved[[-2, -1]]
    changed = replace(schedule, broadcast=replace(forest, entry_path=moved))
    assert lower_box(problem.topology, problem.collective, changed) is None


def test_sets_of_many_ranks_are_those_of_all_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"algorithms": ["forestcoll", "three-stage", "rail"], "cost_model": "reference"}
    whole = solve_sizes("dgx_h100:4", "allgather", "1K,1M,64M", **asked)  # type: ignore[arg-type]
    monkeypatch.setattr(schedule_tasks, "MOST_WHOLE", 8)
    sizes: list[int] = []
    monkeypatch.setattr(
        selection, "schedule_graph", lambda *a, **k: sizes.append(1) or schedule_tasks.schedule_graph(*a, **k)
    )
    folded = solve_sizes("dgx_h100:4", "allgather", "1K,1M,64M", **asked)  # type: ignore[arg-type]
    assert sizes
    for one, other in zip(whole.rows, folded.rows, strict=True):
        assert one.seconds == pytest.approx(other.seconds, rel=1e-9)
        assert one.title == other.title
