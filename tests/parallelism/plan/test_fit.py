"""Plans held against models: every name, every number of factors, every division."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from parallelism.plan.plain_plans import plain_plan
from parallelism.plan.small_models import small_model
from treadle.errors import ScheduleError
from treadle.parallelism.graph.compute_graph import Phase, TensorRef
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart, Tie
from treadle.parallelism.plan.fit import boundary_state, check_fit
from treadle.parallelism.plan.parallel_plan import ParallelPlan, Pipeline
from treadle.parallelism.plan.part_plan import ActivationPolicy, Boundary, OperatorPlan, PartPlan, TensorPlan
from treadle.parallelism.state.sharding import Sharding, replicated
from treadle.schedules.mesh import Mesh

MODEL = small_model()
MESH = Mesh((3, 2), ("ep", "dp"))
Change = Callable[[PartPlan], PartPlan]


def with_block(plan: ParallelPlan, change: Change) -> ParallelPlan:
    return replace(plan, parts={**plan.parts, "block": (change(plan.parts["block"][0]),)})


def operator(name: str, **more: object) -> Change:
    return lambda one: replace(
        one,
        operators={**one.operators, name: replace(one.operators[name], **more)},  # type: ignore[arg-type]
    )


def test_the_plain_plan_fits() -> None:
    check_fit(plain_plan(MODEL, MESH), MODEL)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: replace(p, digest="0" * 64), "another size, batch or version"),
        (lambda p: replace(p, parts={"block": p.parts["block"]}), "part 'head' is missing"),
        (lambda p: replace(p, parts={**p.parts, "tail": p.parts["head"]}), "part 'tail' is not in"),
        (lambda p: replace(p, layers={"block": (0, 0)}), "2 layers of block; expected 3"),
        (lambda p: replace(p, pipeline=Pipeline("dp", (2, 3), 1)), "stages of 5 layers; expected 4"),
        (
            lambda p: replace(p, boundary=Boundary(replicated(1), replicated(1))),
            "1 factors; expected the 2 of block's x",
        ),
        (
            lambda p: replace(p, boundary=Boundary(Sharding((("ep",), ())), replicated(2))),
            "boundary at block: t=16 over 3 ranks",
        ),
        (lambda p: with_block(p, lambda one: replace(one, parameters={})), "parameter 'down' is missing"),
        (
            lambda p: with_block(p, lambda one: replace(one, inputs={"x": replicated(2)})),
            "input 'x' is not in",
        ),
        (lambda p: with_block(p, lambda one: replace(one, operators={})), "operator 'a' is missing"),
        (
            lambda p: with_block(
                p,
                lambda one: replace(one, operators={**one.operators, "z": OperatorPlan("z", (), ())}),
            ),
            "operator 'z' is not in",
        ),
        (lambda p: with_block(p, operator("u", inputs=(replicated(2),))), "1 inputs, 1 outputs; expected 2"),
        (lambda p: with_block(p, operator("u", keep=None)), "u: keep is None"),
        (lambda p: with_block(p, operator("du", keep=ActivationPolicy.SAVED)), "du: keep is Keep.SAVED"),
        (lambda p: with_block(p, operator("u", outputs=(replicated(3),))), "for 2 factors"),
        (
            lambda p: with_block(p, operator("u", outputs=(Sharding(((), ("dp", "ep"))),))),
            r"u makes: f=16 over 6 ranks \(dp, ep\)",
        ),
        (
            lambda p: with_block(
                p,
                lambda one: replace(
                    one,
                    tensors={("no", Phase.FORWARD): TensorPlan("no", Phase.FORWARD, shared=replicated(2))},
                ),
            ),
            "no tensor 'no'",
        ),
        (
            lambda p: with_block(
                p,
                lambda one: replace(
                    one, tensors={("u", Phase.FORWARD): TensorPlan("u", Phase.FORWARD, saved=replicated(1))}
                ),
            ),
            "u: state - for 2 factors",
        ),
        (
            lambda p: with_block(
                p, lambda one: replace(one, parameters={**one.parameters, "up": Sharding((("ep",), ()))})
            ),
            "up: h=8 over 3 ranks",
        ),
    ],
)
def test_what_does_not_fit_is_named(change: Callable[[ParallelPlan], ParallelPlan], words: str) -> None:
    with pytest.raises(ScheduleError, match=words) as caught:
        check_fit(change(plain_plan(MODEL, MESH)), MODEL)
    assert "\n" not in str(caught.value)


def test_one_parameter_of_two_parts_has_one_state() -> None:
    block = ModelPart("block", small_model().parts[0].graph, 1, TensorRef(0), TensorRef(6))
    wide = ModelPart("wide", small_model().parts[0].graph, 1, TensorRef(0), TensorRef(6))
    model = ModelGraph("tied", (block, wide), "t", ties=(Tie(("block", "up"), ("wide", "up")),))
    plan = plain_plan(model, MESH)
    check_fit(plan, model)
    sharded = {**plan.parts["wide"][0].parameters, "up": Sharding((("dp",), ()))}
    with pytest.raises(ScheduleError, match=r"up and up are one parameter, but stored as - \| - and dp \| -"):
        check_fit(
            replace(
                plan, parts={**plan.parts, "wide": (replace(plan.parts["wide"][0], parameters=sharded),)}
            ),
            model,
        )


def test_a_boundary_leaves_factors_of_one_element_out() -> None:
    part = small_model(t=1).parts[0]
    assert part.enters is not None
    assert boundary_state(part, part.enters, Sharding((("dp",),))) == Sharding(((), ("dp",)))
