"""Named plans: their states are among those of the problem, and say what their names say."""

from __future__ import annotations

import numpy as np
import pytest

from parallelism.problem.settings import COSTS, MESH, TIMES, small_model
from treadle.parallelism.problem.search_problem import SearchProblem, make_problem
from treadle.parallelism.search.branching import NAMED_EFFORT, Incumbent
from treadle.parallelism.search.one_plan import fastest_plan


@pytest.fixture(scope="module")
def problem() -> SearchProblem:
    return make_problem(small_model(), MESH, COSTS, TIMES)


@pytest.fixture(scope="module")
def found(problem: SearchProblem) -> dict[str, Incumbent]:
    plans = {}
    for name, domains in problem.named().items():
        plan = fastest_plan(problem.graph, within=domains, effort=NAMED_EFFORT)
        assert isinstance(plan, Incumbent), name
        assert plan.plan is not None, name
        plans[name] = plan
    return plans


def test_every_use_of_axes_has_its_names(found: dict[str, Incumbent]) -> None:
    bare = {name.partition(",")[0] if "recompute" in name else name for name in found}
    assert {"DP", "FSDP", "HSDP nv", "TP nv x DP ib", "TP nv x FSDP ib", "CP nv x FSDP ib"} <= bare
    assert {f"FSDP{rest}" for rest in ("", ", selective recompute", ", full recompute")} <= set(found)


def test_domains_are_ascending_and_none_is_empty(problem: SearchProblem) -> None:
    for domains in problem.named().values():
        for states, size in zip(domains, problem.graph.sizes, strict=True):
            assert len(states)
            assert (np.diff(states) > 0).all()
            assert states[-1] < size
