"""Plans held against models: every name, every number of factors, every division."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parallelism.plan.plain_plans import plain_plan
from parallelism.plan.small_models import small_model
from treadle.errors import ScheduleError
from treadle.parallelism.graph.compute_graph import TensorRef
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart, Tie
from treadle.parallelism.plan.fit import check_fit
from treadle.parallelism.state.sharding import Sharding
from treadle.schedules.mesh import Mesh

MESH = Mesh((3, 2), ("ep", "dp"))


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
