"""Options of steps."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.errors import ScheduleError
from treadle.training.training_options import TrainingOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kappa": 3}, r"kappa 3; expected 1 .* to 2"),
        ({"micro_batches": 0}, "micro_batches 0; expected 1 or more"),
        ({"prefetch": -1}, "prefetch -1; expected 0 or more"),
        ({"bucket_bytes": 0}, "bucket_bytes 0; expected 1 or more"),
        ({"capacity_factor": 0}, "capacity factor 0"),
        ({"layers_per_chunk": (1, 0)}, "at least one layer in each virtual stage"),
        ({"recompute": "some"}, "recompute 'some'; expected none, attention, full"),
        ({"streams": "two"}, "streams 'two'; expected one, per-axis"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        TrainingOptions(**{"kappa": 1, **options})
