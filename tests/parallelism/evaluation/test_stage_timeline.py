"""The timeline of stages, against closed forms and the longest way through its passes."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.parallelism.evaluation.stage_timeline import StageTimes, one_f_one_b
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
