"""What an evaluation sums up, of parts, switches and moments that all differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parallelism.plan.plain_plans import plain_plan
from parallelism.plan.small_models import small_model
from treadle.parallelism.evaluation.evaluation import evaluate
from treadle.parallelism.evaluation.node_work import DeviceNumbers
from treadle.parallelism.evaluation.reshardings import PricedCollective
from treadle.parallelism.graph.compute_graph import Phase
from treadle.parallelism.plan.part_plan import Boundary
from treadle.parallelism.state.sharding import Sharding
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts

MODEL = small_model(3, 16, 8, 32)
COSTS = AlphaBetaCosts(0, {(kind, ("x",)): 10 for kind in CollectiveKind})


@pytest.mark.parametrize("overlap", ["layer", "none", "model"])
def test_layers_of_two_boundaries_pay_for_their_switches(overlap: str) -> None:
    """The second block takes and gives halves: gathers of 16 x 8 x 2 bytes to get there and back."""
    plan = plain_plan(MODEL, Mesh((2,), ("x",)))
    (block,) = plan.parts["block"]
    halves = Sharding((("x",), ()))
    other = replace(block, boundary=Boundary(halves, halves))
    plan = replace(plan, parts={**plan.parts, "block": (block, other)}, layers={"block": (0, 1, 0)})
    found = evaluate(plan, MODEL, COSTS, DeviceNumbers(1e3, 1e3), overlap=overlap)
    gathered = PricedCollective(CollectiveKind.ALLGATHER, ("x",), 256)
    seconds = float(COSTS.time_s(CollectiveKind.ALLGATHER, ("x",), 256))
    # activations out of the second layer, gradients back into the first
    assert [(one.collective, one.phase, one.plan, one.why) for one in found.switches] == [
        (gathered, Phase.BACKWARD, 1, "switch"),
        (gathered, Phase.FORWARD, 0, "switch"),
    ]
    assert found.switch_s == 2 * seconds
    times = {(one.part, one.plan): one for one in found.parts}
    assert [times["block", plan].runs for plan in (0, 1)] == [2, 1]
    layers = [times["block", 0], times["block", 1], times["block", 0], times["head", 0]]
    serial = sum(one.serial_s() for one in layers) + found.switch_s
    beside = sum(one.overlapped_s() for one in layers)
    expected = {
        "layer": sum(max(one.serial_s(), one.overlapped_s()) for one in layers) + found.switch_s,
        "none": serial + beside,
        "model": max(serial, beside),
    }
    assert found.seconds == pytest.approx(expected[overlap])
    assert times["block", 1].communication_s > 0
    assert {one.why for one in times["block", 1].movements} <= {
        "u",
        "y",
        "dup",
        "boundary",
        "da",
        "ddown",
        "dx",
    }
