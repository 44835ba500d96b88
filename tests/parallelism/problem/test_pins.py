"""Pins: what a user fixes holds in every plan, and what cannot be is refused by name."""

from __future__ import annotations

import pytest

from parallelism.problem.settings import COSTS, MESH, TIMES, small_model
from treadle.errors import ScheduleError
from treadle.parallelism.problem.search_problem import SearchProblem, make_problem
from treadle.parallelism.search.branching import NAMED_EFFORT, Incumbent
from treadle.parallelism.search.one_plan import fastest_plan


@pytest.fixture(scope="module")
def problem() -> SearchProblem:
    return make_problem(small_model(), MESH, COSTS, TIMES)


@pytest.mark.parametrize("state", ["- | - | - | -", "nv | - | - | -", "- | - | - | nv,ib"])
def test_a_pinned_parameter_is_stored_so(problem: SearchProblem, state: str) -> None:
    within = problem.constrained({"wq": state})
    found = fastest_plan(problem.graph, within=within, effort=NAMED_EFFORT)
    assert isinstance(found, Incumbent)
    assert found.plan is not None
    plan = problem.decode(found.plan)
    assert str(plan.plan_of("block").parameters["layers.*.attention.wq.weight"]) == state


def test_a_pinned_tensor_is_made_so(problem: SearchProblem) -> None:
    found = fastest_plan(
        problem.graph, within=problem.constrained({"block/up": "ib | - | nv"}), effort=NAMED_EFFORT
    )
    assert isinstance(found, Incumbent)
    assert found.plan is not None
    assert str(problem.decode(found.plan).plan_of("block").operators["up"].outputs[0]) == "ib | - | nv"


@pytest.mark.parametrize(
    ("name", "state", "why"),
    [
        ("wz", "-", "unknown parameter or tensor; expected one of embedding/tok_embeddings.weight"),
        ("wq", "- | - | nv | -", "expected one of"),
        ("wq", "", "expected one such as"),
    ],
)
def test_what_is_not_there_is_refused(problem: SearchProblem, name: str, state: str, why: str) -> None:
    with pytest.raises(ScheduleError, match=why):
        problem.constrained({name: state})
