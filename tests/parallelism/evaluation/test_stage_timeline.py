"""The timeline of stages, against closed forms and the planner's own."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.parallelism.evaluation.stage_timeline import StageTimes, one_f_one_b
from treadle.planning.parallelising.stage_cuts import StagePass, pipeline_seconds


@pytest.mark.parametrize(("stages", "batches"), [(1, 1), (1, 5), (4, 1), (4, 3), (4, 8), (3, 3)])
def test_equal_stages_take_batches_and_the_ramp(stages: int, batches: int) -> None:
    own = [StageTimes(1.0, 2.0, 0.5, 3.0)] * stages
    assert one_f_one_b(own, batches, 0.0) == 3.0 * (batches + stages - 1) + 0.5


def test_sends_delay_the_ramp_only_where_nothing_else_is_done() -> None:
    own = [StageTimes(1.0, 2.0, 0.0, 3.0)] * 2
    # one micro-batch passes each of the two gaps once
    assert one_f_one_b(own, 1, 0.25) == 6.0 + 2 * 0.25


def test_two_timelines_agree() -> None:
    """Where a stage sends both ways at once the planner's sends wait for each other, and take longer."""
    rng = np.random.default_rng(1)
    for _ in range(40):
        n, batches = int(rng.integers(1, 6)), int(rng.integers(1, 9))
        rows = rng.uniform(0.5, 3.0, (n, 3))
        stages = [StageTimes(f, b, after, f + b) for f, b, after in rows]
        others = [StagePass(f, b, after) for f, b, after in rows]
        for send in (0.0, 0.4):
            found, other = one_f_one_b(stages, batches, send), pipeline_seconds(others, batches, send)
            if n < 3 or not send:
                assert found == pytest.approx(other, rel=1e-12)
            else:
                assert found <= other * (1 + 1e-12)
