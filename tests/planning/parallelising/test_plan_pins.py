"""Searches on one mesh: what pins leave, what is proven, and how layers become stages."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf
from typing import Any, cast

import pytest
from tests.parallelism.plan.small_models import small_model

from treadle.errors import FormatError, InfeasibleError
from treadle.options.keywords import ParallelizeKeywords
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.search.branching import SearchEffort
from treadle.parallelism.searching import pipeline_run
from treadle.parallelism.searching.mesh_problem import MeshProblem
from treadle.parallelism.searching.parallel_options import parallel_request
from treadle.parallelism.searching.pipeline_run import inner_mesh, search_staged, staged
from treadle.parallelism.searching.plan_search import STAGES, PipelineForm, PlanSearch
from treadle.parallelism.state.sharding import Sharding
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts
from treadle.unsupported import Unsupported

MODEL = small_model(t=48, h=24, f=36)
MESH = Mesh((2, 3), ("a", "b"))
AXES = (("a",), ("b",), ("a", "b"))
COSTS = AlphaBetaCosts(
    1e-7,
    {
        (kind, axes): 1e9 * (place + 1)
        for place, axes in enumerate((*AXES, (STAGES,)))
        for kind in (None, *CollectiveKind)
    },
)


@pytest.fixture(scope="module")
def free() -> PlanSearch:
    return plans_of()


@pytest.fixture(scope="module")
def posed(free: PlanSearch) -> MeshProblem:
    return free.make_problem(MESH, COSTS)


def plans_of(**options: Any) -> PlanSearch:
    asked: ParallelizeKeywords = {"gap": 0.2, **options}  # type: ignore[typeddict-item]
    return PlanSearch(MODEL, parallel_request("a100", 48, asked))


def pinned(plans: PlanSearch, posed: MeshProblem) -> MeshProblem:
    """The problem itself does not depend on pins."""
    return replace(posed, within=plans._within(posed.problem))


def found_plan(plans: PlanSearch, posed: MeshProblem) -> ParallelPlan:
    found = plans.search(plans.look(posed), effort=SearchEffort(gap=0.2, n_parts=1))
    assert found.found.plan is not None
    return posed.problem.decode(found.found.plan)


def test_a_pinned_result_is_made_so(posed: MeshProblem) -> None:
    plans = plans_of(constraints={"block/u": "t:a/f:b"})
    plan = found_plan(plans, pinned(plans, posed))
    (made,) = plan.parts["block"][0].operators["u"].outputs
    assert made == Sharding((("a",), ("b",)))


@pytest.mark.parametrize(
    ("pins", "message"),
    [
        (
            {"up": "z:a"},
            "--pin up: 'z:a': expected DIM:AXIS,... with a dimension of hf, several with / between, or",
        ),
        ({"up": "h:c"}, "--pin up: no axis 'c' in the mesh; it has a, b"),
        ({"upp": "h:a"}, "small has no tensor 'upp'"),
    ],
)
def test_pins_that_name_nothing(pins: dict[str, str], message: str, posed: MeshProblem) -> None:
    with pytest.raises(FormatError, match=f"^{re.escape(message)}"):
        pinned(plans_of(constraints=pins), posed)


def test_without_memory_there_is_a_shortage_and_no_plan(posed: MeshProblem) -> None:
    plans = plans_of(memory_bytes=1)
    look = plans.look(posed)
    assert (look.seconds, look.found.plan) == (inf, None)
    found = plans.search(look)
    assert (found.seconds, found.bound_s, found.found.plan) == (inf, inf, None)
    shortage = found.found.shortage
    assert shortage is not None
    assert 1 < shortage.bound_bytes <= shortage.least_bytes
    enough = plans.with_memory(shortage.least_bytes)
    assert (enough.request.memory_bytes, enough.model) == (shortage.least_bytes, MODEL)
    assert enough.request.gap == plans.request.gap
    again = enough.search(enough.look(posed), effort=SearchEffort(gap=0.2, n_parts=1))
    assert again.found.plan is not None
    row = enough.priced("x", posed.problem.decode(again.found.plan), COSTS)
    assert row.name == "x"
    assert row.seconds == pytest.approx(row.compute_s + row.exposed_s + row.idle_s)
    assert row.estimate_s >= again.bound_s * (1 - 1e-9)
    assert row.fits == (row.memory_bytes <= shortage.least_bytes)


def test_what_is_proven_is_below_what_is_found(free: PlanSearch, posed: MeshProblem) -> None:
    plans, look = free, free.look(posed)
    found = plans.search(look, effort=SearchEffort(gap=0.2, n_parts=1))
    assert look.bound_s <= found.bound_s <= found.seconds <= look.seconds
    assert 0 < plans.checked_bound(found.found) <= found.seconds * (1 + 1e-9)
    assert not found.found.is_late
    told = plans.resimulated(posed.problem.decode(found.found.plan or ()), COSTS)
    assert isinstance(told, Unsupported)
    assert str(told.reason) == "a captured graph has no table of layers"


def test_pinned_problems_have_no_coarser_plans() -> None:
    assert plans_of(constraints={"w": "whole"}).coarser_plans(cast(MeshProblem, None)) == []


def test_layers_are_cut_into_stages(free: PlanSearch, posed: MeshProblem) -> None:
    """Three blocks of two matrices and a small head: two blocks, then one with the head."""
    plans, plan = free, posed.problem.decode(posed.named["DP"])
    mesh = Mesh((2, 2, 3), (STAGES, "a", "b"))
    found = staged(plans, plan, mesh, COSTS, PipelineForm(2, 5))
    assert found.pipeline is not None
    assert (found.mesh, found.pipeline.axis, found.pipeline.micro_batches) == (mesh, STAGES, 5)
    assert found.pipeline.layers == (2, 2)
    assert found.claim is None
    many = Mesh((5, 2, 3), (STAGES, "a", "b"))
    with pytest.raises(
        InfeasibleError, match=r"^small: 5 virtual stages \(pp x interleave\) for 4 layers; use fewer$"
    ):
        staged(plans, plan, many, COSTS, PipelineForm(5, 5))
    block = (*plan.parts["block"], *posed.problem.decode(posed.named["FSDP"]).parts["block"])
    mixed = replace(plan, parts={**plan.parts, "block": block}, layers={"block": (0, 1, 0)})
    with pytest.raises(
        InfeasibleError, match=r"^small: layers that differ \(--mixed\) are not cut into stages$"
    ):
        staged(plans, mixed, mesh, COSTS, PipelineForm(2, 5))


def test_stages_that_do_not_fit_say_what_is_least() -> None:
    mesh, form, plans = Mesh((2, 2), (STAGES, "a")), PipelineForm(2, 5), plans_of(memory_bytes=1000)
    look = plans.look(plans.make_problem(inner_mesh(mesh), COSTS, form))
    with pytest.raises(InfeasibleError) as error:
        search_staged(plans, mesh, COSTS, form, look)
    assert re.fullmatch(
        r"small, mesh pp=2,a=2, 5 micro-batches: no plan found that fits into 1000B a rank; "
        r"the least is \d+\.\d+KB",
        str(error.value),
    )


def test_each_preset_is_estimated_before_nothing_is_said_to_fit(
    free: PlanSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is what the smallest of the presets takes in its own cut, and no other plan is tried."""
    mesh, form = Mesh((2, 2), (STAGES, "a")), PipelineForm(2, 5)
    posed = free.make_problem(inner_mesh(mesh), COSTS, form)
    cuts = [staged(free, posed.problem.decode(one), mesh, COSTS, form) for one in posed.named.values()]
    least = min(free.estimated(one, COSTS).peak_bytes for one in cuts)
    monkeypatch.setattr(pipeline_run, "_MOST_PRESETS", 0)
    monkeypatch.setattr(pipeline_run, "_MOST_SEARCHES", 0)
    plans = plans_of(memory_bytes=least)
    best, presets, _, _ = search_staged(plans, mesh, COSTS, form, plans.look(posed))
    assert best.fits
    assert best.memory_bytes == least
    assert best.plan in [one.plan for one in presets]
    with pytest.raises(InfeasibleError, match="no plan found that fits"):
        search_staged(plans.with_memory(least - 1), mesh, COSTS, form, plans.look(posed))
