"""Tensors through a step, and what differs between plans, of plans by the book."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.parallelism.plan.small_models import small_model

from treadle.parallelism.explaining.plan_changes import Change, changes_between
from treadle.parallelism.explaining.state_format import matching_tensors
from treadle.parallelism.explaining.tensor_story import tensor_story
from treadle.parallelism.plan.parallel_plan import ParallelPlan, Pipeline
from treadle.parallelism.searching.parallel_options import parallel_request
from treadle.parallelism.searching.plan_search import PlanSearch
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts

MODEL = small_model(t=48, h=24, f=36)
"""Of two bytes an element: up takes 24 x 36 x 2 = 1728 bytes, activations 48 x 24 x 2, inner ones x 36."""
MESH = Mesh((2, 3), ("a", "b"))
COSTS = AlphaBetaCosts(
    1e-6,
    {
        (kind, axes): rate
        for axes, rate in {("a",): 1e9, ("b",): 2e9, ("a", "b"): 3e9}.items()
        for kind in CollectiveKind
    },
)
NAMES = ("FSDP", "TP", "TP a x DP b, full recompute")

Told = tuple[str, str, str, int]


@pytest.fixture(scope="module")
def plans() -> dict[str, ParallelPlan]:
    posed = PlanSearch(MODEL, parallel_request("a100", 48, {"gap": 0.1})).make_problem(MESH, COSTS)
    return {name: posed.problem.decode(posed.problem.tidied(posed.named[name])) for name in NAMES}


def told(plan: ParallelPlan, name: str, part: str = "block") -> list[Told]:
    tensors = dict(matching_tensors(MODEL, name))
    story = tensor_story(plan, MODEL.part(part), tensors[part], MESH, COSTS)
    assert (story.part, story.name) == (part, name)
    return [(leg.when, leg.what, leg.state, leg.local_bytes) for leg in story.legs]


def test_a_matrix_that_is_cut_stays_where_it_is(plans: dict[str, ParallelPlan]) -> None:
    assert told(plans["TP"], "up") == [
        ("forward", "stored", "f:a,b", 288),
        ("forward", "u takes", "f:a,b", 288),
        ("backward", "shared", "f:a,b", 288),
        ("backward", "dxu takes", "f:a,b", 288),
        ("gradient", "dup makes", "f:a,b", 288),
        ("gradient", "stored", "f:a,b", 288),
    ]


def test_what_is_kept_is_told_between_the_passes(plans: dict[str, ParallelPlan]) -> None:
    assert told(plans["FSDP"], "a") == [
        ("forward", "a makes", "t:a,b", 576),
        ("forward", "d takes", "t:a,b", 576),
        ("forward", "kept", "t:a,b", 576),
        ("backward", "ddown takes", "t:a,b", 576),
    ]
    ((_, tensor),) = matching_tensors(MODEL, "a")
    story = tensor_story(plans["FSDP"], MODEL.part("block"), tensor, MESH, COSTS)
    assert (story.kind, story.letters, story.whole_bytes) == ("elementwise", "tf", 48 * 36 * 2)


def told_changes(ours: ParallelPlan, theirs: ParallelPlan) -> list[tuple[str, str, str, str]]:
    return [(one.part, one.what, one.ours, one.theirs) for one in changes_between(MODEL, ours, theirs)]


def test_a_plan_does_not_differ_from_itself(plans: dict[str, ParallelPlan]) -> None:
    for plan in plans.values():
        assert told_changes(plan, plan) == []


def test_what_is_made_once_more_is_not_kept(plans: dict[str, ParallelPlan]) -> None:
    found = told_changes(plans["TP"], plans["TP a x DP b, full recompute"])
    assert ("block", "kept u", "f:a,b", "-") in found
    assert (
        "block",
        "u",
        "f:a,b; 1/6 of the work; saved",
        "t:b/f:a; 1/6 of the work; recomputed",
    ) in found
    assert ("block", "dx", "whole; all of it", "t:b; 1/3 of the work") in found
    assert ("head", "stored w", "h:a,b", "h:a") in found


def test_meshes_and_stages_are_told_first(plans: dict[str, ParallelPlan]) -> None:
    plan = plans["TP"]
    staged = replace(plan, mesh=Mesh((4, 2, 3), ("pp", "a", "b")), pipeline=Pipeline("pp", (1, 1, 1, 1), 5))
    other = replace(staged, pipeline=Pipeline("pp", (1, 1, 1, 1), 6))
    assert list(changes_between(MODEL, plan, staged)) == [
        Change("", "mesh", "a=2,b=3", "pp=4,a=2,b=3"),
        Change("", "stages", "-", "1,1,1,1 along pp, 5 micro-batches"),
    ]
    assert list(changes_between(MODEL, staged, other)) == [
        Change("", "stages", "1,1,1,1 along pp, 5 micro-batches", "1,1,1,1 along pp, 6 micro-batches")
    ]


def test_layers_of_several_kinds_are_told_one_by_one(plans: dict[str, ParallelPlan]) -> None:
    one, other = plans["TP"], plans["FSDP"]
    block = (*one.parts["block"], *other.parts["block"])
    mixed = replace(one, parts={**one.parts, "block": block}, layers={"block": (0, 1, 0)})
    assert list(changes_between(MODEL, one, mixed)) == [Change("block", "kinds of layers", "1", "2")]
    turned = replace(mixed, parts={**one.parts, "block": block[::-1]})
    places = {change.part for change in changes_between(MODEL, mixed, turned)}
    assert places == {"block (1)", "block (2)"}
