"""Steps of plans, simulated: small plans whose steps are known in closed form."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from parallelism.evaluation.named_layouts import by_letter, laid_out
from parallelism.plan.small_models import small_model
from treadle.parallelism.evaluation.evaluation import evaluate
from treadle.parallelism.evaluation.node_work import DeviceNumbers
from treadle.parallelism.evaluation.plan_timeline import plan_timeline
from treadle.parallelism.plan.parallel_plan import ParallelPlan, Pipeline
from treadle.parallelism.state.sharding import Sharding
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts
from treadle.training.timeline.task import Category
from treadle.training.timeline.timeline import Timeline

LAYERS = 8
MODEL = small_model(LAYERS, t=16, h=8, f=32)
DEVICE = DeviceNumbers(1.0, 1e9, optimizer_bytes=0)
MATRIX = 2 * 8 * 32
"""Bytes of a matrix of a block, of which it has two."""


def data_parallel(*, is_sharded: bool = False, pipeline: Pipeline | None = None) -> ParallelPlan:
    plan = laid_out(
        MODEL,
        Mesh((2,), ("x",)),
        by_letter("x", "t"),
        boundary={"x": "t"},
        stored=lambda path, letters: Sharding(
            (("x",) if is_sharded and len(letters) > 1 else (), *((),) * (len(letters) - 1))
        ),
    )
    if pipeline is None:
        return plan
    return replace(plan, mesh=Mesh((pipeline.stages, 2), ("pp", "x")), pipeline=pipeline)


def simulated(plan: ParallelPlan, **seconds: float) -> tuple[float, float, Timeline]:
    """Forward and backward seconds of a block, and the step.

    Collectives take so many seconds for both matrices of a block; others are too slow to be used.
    """
    rates: dict[tuple[CollectiveKind | None, tuple[str, ...]], float] = {
        (kind, ("x",)): 2 * MATRIX / seconds.get(kind.name, 1e12) for kind in CollectiveKind
    }
    costs = AlphaBetaCosts(0, rates | {(None, ("pp",)): 1e12})
    found = evaluate(plan, MODEL, costs, DEVICE)
    block = found.parts[0]  # the head takes next to nothing
    return block.forward_s, block.backward_s, plan_timeline(plan, MODEL, costs, DEVICE, found)


def moved(timeline: Timeline) -> Counter[tuple[Category, int]]:
    """Collectives of blocks, by kind and device."""
    return Counter(
        (task.category, task.device)
        for task in timeline.tasks
        if task.size_bytes >= MATRIX and task.category is not Category.SEND
    )


@pytest.mark.parametrize("share", [0.2, 1.5, 5.0])
def test_shards_are_gathered_one_layer_ahead(share: float) -> None:
    """Nothing hides the first gather, nor that for the first backward pass: the head comes between."""
    plan = data_parallel(is_sharded=True)
    forward, backward, _ = simulated(plan, REDUCE_SCATTER=1e-6, ALLGATHER=1e-6)
    gather = share * forward
    _, _, timeline = simulated(plan, REDUCE_SCATTER=1e-6, ALLGATHER=gather)
    step = sum(gather + (LAYERS - 1) * max(one, gather) + one for one in (forward, backward))
    assert float(timeline.total_s) == pytest.approx(step, rel=1e-3)
    assert moved(timeline) == {(Category.ALLGATHER, 0): 2 * LAYERS, (Category.REDUCE_SCATTER, 0): LAYERS}


@pytest.mark.parametrize(
    ("pieces", "interleave", "ramp"), [((4, 5), 1, 1), ((2, 2, 2, 3), 2, 1 / 2)], ids=["1F1B", "interleaved"]
)
def test_a_pipeline_passes_all_micro_batches_and_reduces_gradients_once(
    pieces: tuple[int, ...], interleave: int, ramp: float
) -> None:
    """Stages of four blocks, the second with the head: the first waits for the second at both ends."""
    plan = data_parallel(pipeline=Pipeline("pp", pieces, 4, interleave))
    forward, backward, timeline = simulated(plan, ALLREDUCE=3e5)
    stage = LAYERS / 2 * (forward + backward)
    assert float(timeline.total_s) == pytest.approx((4 + ramp) * stage + LAYERS / 2 * 3e5, rel=1e-3)
    assert moved(timeline) == {(Category.ALLREDUCE, stage): 1 for stage in (0, 1)}
    for device in timeline.devices:
        parts = timeline.device_time(device)
        exposed = sum(parts.exposed_s.values())
        assert float(parts.compute_s + exposed + parts.idle_s) == pytest.approx(float(timeline.total_s))
