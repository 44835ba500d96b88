"""Values of plans at their limits and one beyond, and what plans say of themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from parallelism.plan.plain_plans import plain_plan
from parallelism.plan.small_models import small_model
from samples.training.parsed_values import plan_from_json
from treadle.errors import FormatError, ScheduleError
from treadle.parallelism.plan.fit import check_fit
from treadle.parallelism.plan.parallel_plan import ParallelPlan, Pipeline, PlanClaim
from treadle.parallelism.plan.part_plan import (
    Boundary,
    Chunk,
    OperatorPlan,
    PartPlan,
)
from treadle.parallelism.plan.plan_json import plan_to_json
from treadle.parallelism.state.sharding import Sharding, replicated
from treadle.schedules.mesh import Mesh

MODEL = small_model()
PLAN = plain_plan(MODEL, Mesh((2, 3, 1), ("a", "b", "idle")))
WHOLE = replicated(2)


def refused(make: Callable[[], object], words: str, error: type[Exception] = ScheduleError) -> None:
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == words


@pytest.mark.parametrize("chunk", [Chunk("s", 2), Chunk("s", 2**20, 2**20), Chunk("s", 3, 0)])
def test_chunks_within_their_range(chunk: Chunk) -> None:
    made = OperatorPlan("u", (), (), chunk=tuple(chunk))  # type: ignore[arg-type]
    assert made.chunk == chunk
    assert made.chunk.of_loop == (chunk.n_chunks, chunk.loop)


def with_block(plan: ParallelPlan, part: PartPlan) -> ParallelPlan:
    return replace(plan, parts={**plan.parts, "block": (part,)})


def with_operator(plan: ParallelPlan, **values: object) -> ParallelPlan:
    part = plan.parts["block"][0]
    operators = {**part.operators, "u": replace(part.operators["u"], **values)}  # type: ignore[arg-type]
    return with_block(plan, replace(part, operators=operators))


def test_what_does_not_fit_a_model_is_told_in_full() -> None:
    digest, other = MODEL.digest[:12], "0" * 12
    refused(
        lambda: check_fit(replace(PLAN, digest="0" * 64, model="old"), MODEL),
        f"plan of model old, graph {other}; expected that of small, {digest}: it was made for another size, "
        "batch or version of the model",
    )
    refused(
        lambda: check_fit(with_operator(PLAN, inputs=(WHOLE,)), MODEL),
        "plan of block: u: 1 inputs, 1 outputs; expected 2 and 1",
    )
    refused(
        lambda: check_fit(with_operator(PLAN, outputs=(WHOLE, WHOLE)), MODEL),
        "plan of block: u: 2 inputs, 2 outputs; expected 2 and 1",
    )
    refused(
        lambda: check_fit(with_operator(PLAN, outputs=(Sharding(((), ("a", "b"))),)), MODEL),
        "plan of block: u makes: f=16 over 6 ranks (a, b); expected equal shards",
    )
    refused(
        lambda: check_fit(with_operator(PLAN, inputs=(WHOLE, Sharding((("b",), ())))), MODEL),
        "plan of block: u takes up: h=8 over 3 ranks (b); expected equal shards",
    )
    refused(
        lambda: check_fit(with_operator(PLAN, keep=None), MODEL),
        "plan of block: u: keep is None; expected one in the forward pass, and there only",
    )
    refused(
        lambda: check_fit(replace(PLAN, boundary=Boundary(WHOLE, Sharding((("b",), ())))), MODEL),
        "plan: boundary at block: t=16 over 3 ranks (b); expected equal shards",
    )
    refused(
        lambda: check_fit(replace(PLAN, boundary=Boundary(replicated(3), replicated(3))), MODEL),
        "plan: boundary - | - | - has 3 factors; expected the 2 of block's x",
    )
    refused(
        lambda: check_fit(replace(PLAN, layers={"block": (0, 0)}), MODEL),
        "plan: 2 layers of block; expected 3, as in the model",
    )
    refused(
        lambda: check_fit(replace(PLAN, pipeline=Pipeline("a", (2, 1), 1)), MODEL),
        "plan: stages of 3 layers; expected 4, as in the model",
    )
    check_fit(replace(PLAN, layers={"block": (0, 0, 0)}, pipeline=Pipeline("a", (2, 2), 1)), MODEL)


@pytest.mark.parametrize("key", ["seconds", "bound_s", "memory_bytes"])
def test_claims_of_files_are_numbers(key: str) -> None:
    data: Any = plan_to_json(replace(PLAN, claim=PlanClaim(3.0, 2.0, 5.0)))
    for value in (True, "1", 1e300, -1e300):
        data["claim"][key] = value
        with pytest.raises(FormatError, match=rf"^claim\.{key}: expected a number"):
            plan_from_json(data)
    data["claim"][key] = 7
    assert getattr(plan_from_json(data).claim, key) == 7.0
