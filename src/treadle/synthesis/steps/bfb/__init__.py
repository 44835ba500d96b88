"""Breadth-first-broadcast schedules (dissertation, section 3.6 and appendix A.5), exact and without an LP."""

from treadle.synthesis.steps.bfb.breadth_first import (
    bfb_allgather,
    bfb_broadcast,
    bfb_reduce_scatter,
    bfb_schedule,
    chunk_count,
)
from treadle.synthesis.steps.bfb.heterogeneous import (
    HeterogeneousValue,
    heterogeneous_allgather,
    heterogeneous_value,
    schedule_for_size,
)
from treadle.synthesis.steps.bfb.value import BfbValue, bfb_reduce_scatter_value, bfb_value, orbit_value

__all__ = [
    "BfbValue",
    "HeterogeneousValue",
    "bfb_allgather",
    "bfb_broadcast",
    "bfb_reduce_scatter",
    "bfb_reduce_scatter_value",
    "bfb_schedule",
    "bfb_value",
    "chunk_count",
    "heterogeneous_allgather",
    "heterogeneous_value",
    "orbit_value",
    "schedule_for_size",
]
