"""Named plans: their states are among those of the problem, and say what their names say."""

from __future__ import annotations

import numpy as np
import pytest

from parallelism.problem.settings import COSTS, MESH, TIMES, small_model
from treadle.parallelism.plan.part_plan import ActivationPolicy
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


def test_no_named_plan_is_quicker_than_the_bound_of_all(
    problem: SearchProblem, found: dict[str, Incumbent]
) -> None:
    plans = [one.plan for one in found.values() if one.plan is not None]
    best = fastest_plan(problem.graph, named=plans)
    assert isinstance(best, Incumbent)
    assert best.value <= min(one.value for one in found.values())
    assert best.bound <= min(one.value for one in found.values())


def test_replicas_store_whole_parameters_and_shards_cut_them(
    problem: SearchProblem, found: dict[str, Incumbent]
) -> None:
    def stored(name: str) -> set[int]:
        plan = problem.decode(found[name].plan or ())
        states = plan.plan_of("block").parameters
        return {one.n_shards(plan.sizes) for path, one in states.items() if "norm" not in path}

    assert stored("DP") == {1}
    assert stored("HSDP nv") == {2}
    assert stored("FSDP") == {8}
    assert stored("TP nv x DP ib") == {2}


def test_tensor_parallel_products_cut_heads_and_inner_dimensions(
    problem: SearchProblem, found: dict[str, Incumbent]
) -> None:
    operators = problem.decode(found["TP nv x FSDP ib"].plan or ()).plan_of("block").operators
    assert str(operators["query"].outputs[0]) == "ib | nv | - | - | -"
    assert str(operators["up"].outputs[0]) == "ib | - | nv"
    assert str(operators["down"].outputs[0]) == "ib | - | - partial nv"
    assert str(operators["residual"].outputs[0]) == "ib | nv | -"


def test_recomputation_takes_time_and_saves_less(problem: SearchProblem, found: dict[str, Incumbent]) -> None:
    names = problem.graph.quantities
    amounts = {
        name: problem.graph.amounts(found[name].plan or ())
        for name in ("FSDP", "FSDP, selective recompute", "FSDP, full recompute")
    }
    held = [one[names.persistent] for one in amounts.values()]
    computed = [one[names.serial(1)] for one in amounts.values()]
    assert held[0] > held[1] > held[2]
    assert computed[0] < computed[1] < computed[2]
    keeps = {
        one.keep
        for one in problem.decode(found["FSDP, full recompute"].plan or ())
        .plan_of("block")
        .operators.values()
    }
    assert keeps == {ActivationPolicy.RECOMPUTED, ActivationPolicy.UNUSED, None}


def test_domains_are_ascending_and_none_is_empty(problem: SearchProblem) -> None:
    for domains in problem.named().values():
        for states, size in zip(domains, problem.graph.sizes, strict=True):
            assert len(states)
            assert (np.diff(states) > 0).all()
            assert states[-1] < size
