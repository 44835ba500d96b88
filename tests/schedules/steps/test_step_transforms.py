"""Transforms keep schedules correct, keep their costs, and are their own inverses where they should be."""

from __future__ import annotations

import pytest

from samples import step_samples as samples
from treadle.errors import ScheduleError
from treadle.schedules.steps.step_transforms import combine, subdivide

# --- reversal (A.2) ----------------------------------------------------------------------------------------


# --- chunks ------------------------------------------------------------------------------------------------


def test_too_many_chunks() -> None:
    _, steps = samples.k22_allgather()
    with pytest.raises(ScheduleError, match="33554432 chunks per shard"):
        subdivide(steps, 2**24)
    with pytest.raises(ScheduleError, match="at least 1, found 0"):
        subdivide(steps, 0)
    with pytest.raises(ScheduleError, match="more than 2"):
        combine([subdivide(steps, 2**20 + 1), subdivide(steps, 2**20 - 1)])


# --- putting together --------------------------------------------------------------------------------------
