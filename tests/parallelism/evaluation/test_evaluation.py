"""What an evaluation sums up, of parts, switches and moments that all differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parallelism.plan.plain_plans import plain_plan
from parallelism.plan.small_models import small_model
from treadle.errors import ScheduleError
from treadle.parallelism.evaluation.evaluation import Evaluation, evaluate
from treadle.parallelism.evaluation.memory_at_moments import Held, Moment
from treadle.parallelism.evaluation.node_work import DeviceNumbers
from treadle.parallelism.evaluation.part_times import Movement, PartTimes
from treadle.parallelism.evaluation.reshardings import PricedCollective
from treadle.parallelism.graph.compute_graph import Phase
from treadle.parallelism.plan.part_plan import Boundary, TensorPlan
from treadle.parallelism.state.sharding import Sharding, replicated
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts

GATHER = PricedCollective(CollectiveKind.ALLGATHER, ("x",), 10)
SUM = PricedCollective(CollectiveKind.ALLREDUCE, ("x", "y"), 7)


def movement(collective: PricedCollective, count: int, seconds: float) -> Movement:
    return Movement(collective, count, seconds, "p", 0, "t", Phase.FORWARD, "why")


def moment(node: str, *held: int) -> Moment:
    return Moment("p", Phase.FORWARD, node, tuple(Held("why", "t", n_bytes) for n_bytes in held))


TOLD = Evaluation(
    100.0,
    "layer",
    (
        PartTimes("p", 0, 3, 1.0, 2.0, 4.0, (movement(GATHER, 4, 0.5), movement(SUM, 2, 0.25))),
        PartTimes("q", 0, 5, 8.0, 0.0, 0.0, (movement(GATHER, 1, 2.0),)),
    ),
    (movement(SUM, 1, 16.0), movement(GATHER, 1, 32.0)),
    (moment("a", 5, 1), moment("b", 4, 4), moment("c", 7)),
)


def test_sums_over_runs_and_switches() -> None:
    assert TOLD.switch_s == 48
    assert TOLD.compute_s == 3 * 7 + 5 * 8
    assert TOLD.communication_s == 3 * 0.75 + 5 * 2 + 48
    assert (TOLD.peak.node, TOLD.peak_bytes) == ("b", 8)


def test_collectives_are_counted_by_runs_and_by_chunks() -> None:
    """Gathers: 3 runs of 4, 5 runs of 1, and a switch; sums: 3 runs of 2, and a switch."""
    assert [(runs, one.collective) for runs, one in TOLD.movements] == [
        (3, GATHER), (3, SUM), (5, GATHER), (1, SUM), (1, GATHER),
    ]  # fmt: skip
    assert dict(TOLD.collectives) == {
        (CollectiveKind.ALLGATHER, ("x",), 10): 18,
        (CollectiveKind.ALLREDUCE, ("x", "y"), 7): 7,
    }
    assert dict(TOLD.by_axes) == {
        ("x",): (18, 180, 3 * 0.5 + 5 * 2 + 32),
        ("x", "y"): (7, 49, 3 * 0.25 + 16),
    }


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


def test_why_collectives_are() -> None:
    """`u` is saved in halves and shared whole: gathered in the backward pass, cut in the forward one."""
    plan = plain_plan(MODEL, Mesh((2,), ("x",)))
    (block,) = plan.parts["block"]
    halves = Sharding((("x",), ()))
    tensors = {
        **block.tensors,
        ("u", Phase.FORWARD): TensorPlan("u", Phase.FORWARD, saved=halves),
        ("u", Phase.BACKWARD): TensorPlan("u", Phase.BACKWARD, shared=replicated(2)),
    }
    plan = replace(plan, parts={**plan.parts, "block": (replace(block, tensors=tensors),)})
    found = evaluate(plan, MODEL, COSTS, DeviceNumbers(1e3, 1e3))
    (times, _) = found.parts
    assert [(one.tensor, one.phase, one.why, one.count) for one in times.movements] == [
        ("u", Phase.BACKWARD, "shared", 1)
    ]
    with pytest.raises(ScheduleError) as caught:
        evaluate(plan, MODEL, COSTS, DeviceNumbers(1e3, 1e3), overlap="all")
    assert str(caught.value) == "overlap 'all'; expected none, layer, model"
