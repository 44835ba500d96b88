"""The timeline of stages, against closed forms and the longest way through its passes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from treadle.parallelism.evaluation.part_times import PartTimes
from treadle.parallelism.evaluation.stage_timeline import (
    PipelineTimes,
    StageTimes,
    _stage,
    one_f_one_b,
    pipelined,
)
from treadle.parallelism.plan.parallel_plan import Pipeline
from treadle.training.forms.pipeline_parallel import stage_order


@pytest.mark.parametrize(("stages", "batches"), [(1, 1), (1, 5), (4, 1), (4, 3), (4, 8), (3, 3)])
def test_equal_stages_take_batches_and_the_ramp(stages: int, batches: int) -> None:
    own = [StageTimes(1.0, 2.0, 0.5, 3.0)] * stages
    assert one_f_one_b(own, batches, 0.0) == 3.0 * (batches + stages - 1) + 0.5


def test_sends_delay_the_ramp_only_where_nothing_else_is_done() -> None:
    own = [StageTimes(1.0, 2.0, 0.0, 3.0)] * 2
    # one micro-batch passes each of the two gaps once
    assert one_f_one_b(own, 1, 0.25) == 6.0 + 2 * 0.25


def longest_way(stages: list[StageTimes], batches: int, send: float) -> float:
    """Passes in training's order, each as soon as what it waits for has ended; round after round."""
    n = len(stages)
    ends: dict[tuple[int, bool, int], float] = {}
    orders = [
        [(stage, visit.is_forward, visit.micro_batch) for visit in stage_order(stage, n, batches)]
        for stage in range(n)
    ]
    while len(ends) < 2 * n * batches:
        for order, one in zip(orders, stages, strict=True):
            done = sum(key in ends for key in order)
            if done == len(order):
                continue
            stage, is_forward, batch = order[done]
            before = stage - 1 if is_forward else stage + 1
            first = 0 <= before < n
            if first and (before, is_forward, batch) not in ends:
                continue
            ready = ends[before, is_forward, batch] + send if first else 0.0
            free = ends[order[done - 1]] if done else 0.0
            length = one.forward_s if is_forward else one.backward_s
            ends[stage, is_forward, batch] = max(ready, free) + length
    return max(
        max(end for (own, *_), end in ends.items() if own == stage) + one.after_s
        for stage, one in enumerate(stages)
    )


def test_the_timeline_is_the_longest_way_through_its_passes() -> None:
    rng = np.random.default_rng(1)
    for _ in range(40):
        n, batches = int(rng.integers(1, 6)), int(rng.integers(1, 9))
        rows = rng.uniform(0.5, 3.0, (n, 3))
        stages = [StageTimes(f, b, after, f + b) for f, b, after in rows]
        for send in (0.0, 0.4):
            assert one_f_one_b(stages, batches, send) == pytest.approx(longest_way(stages, batches, send))


def layer(*seconds: float) -> PartTimes:
    """Forward, backward, optimizer, moved forward, moved backward."""
    forward, backward, optimizer, moved_forward, moved_backward = seconds
    return PartTimes("block", 0, 1, forward, backward, optimizer, moved_forward, moved_backward, ())


@pytest.mark.parametrize(
    ("overlap", "exposed"),
    [
        ("none", 20.0),  # all of 5 + 13 + a switch of 2
        ("model", 8.0),  # what 1 + 2 + 4 + 5 seconds of the whole stage do not hide
        ("layer", 15.0),  # the switch, and of the first layer 16 over 3; the second hides its 2 in 9
    ],
)
def test_what_a_stage_does_not_hide_is_shared_out_by_where_it_is_moved(overlap: str, exposed: float) -> None:
    """Of 20 seconds 6 are moved forward: 5 of the first layer, and half of the switch."""
    found = _stage([layer(1, 2, 0.25, 5, 11), layer(4, 5, 0.5, 0, 2)], [2.0], overlap)
    assert found.forward_s == pytest.approx(5 + exposed * 6 / 20)
    assert found.backward_s == pytest.approx(7 + exposed * 14 / 20)
    assert (found.after_s, found.compute_s) == (0.75, 12)


@pytest.mark.parametrize("overlap", ["none", "layer", "model"])
def test_a_stage_that_moves_nothing_or_hides_all_computes(overlap: str) -> None:
    assert _stage([layer(1, 2, 4, 0, 0)], [], overlap) == StageTimes(1, 2, 4, 3)
    if overlap != "none":
        assert _stage([layer(1, 2, 4, 1, 2)], [], overlap) == StageTimes(1, 2, 4, 3)


def test_the_busiest_stage_computes_for_every_micro_batch_and_ends_with_its_optimizer() -> None:
    stages = (StageTimes(9.0, 9.0, 1.0, 3.0), StageTimes(0.0, 0.0, 4.0, 2.0))
    assert PipelineTimes(99.0, stages, 2, 0.0).busiest_compute_s == 8.0
    assert PipelineTimes(99.0, stages, 4, 0.0).busiest_compute_s == 13.0


def test_stages_take_their_layers_in_turn_and_send_what_passes_between_them() -> None:
    """Three layers on stages of two and one: the switch between the second and third is a send instead."""
    layers = [layer(1, 2, 0, 3, 1), layer(4, 5, 1, 0, 2), layer(6, 7, 0, 1, 1)]
    asked = []

    def send_s(axis: str, size_bytes: int) -> float:
        asked.append((axis, size_bytes))
        return 0.5

    plan = SimpleNamespace(pipeline=Pipeline("p", (2, 1), 3))
    costs = SimpleNamespace(send_s=send_s)
    found = pipelined(plan, layers, [8.0, 100.0], costs, "none", sent_bytes=77)  # type: ignore[arg-type]
    assert asked == [("p", 77)]
    # forward 5 + 3 + 8 / 2, backward 7 + 3 + 8 / 2; then 6 + 1 and 7 + 1
    assert found.stages == (StageTimes(12, 14, 1, 12), StageTimes(7, 8, 0, 13))
    assert (found.micro_batches, found.send_s) == (3, 0.5)
    assert found.seconds == one_f_one_b(found.stages, 3, 0.5)
