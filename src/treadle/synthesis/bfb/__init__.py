"""Breadth-first-broadcast schedules (dissertation, section 3.6 and appendix A.5), exact and without an LP."""

from treadle.synthesis.bfb.schedule import (
    bfb_allgather,
    bfb_broadcast,
    bfb_reduce_scatter,
    bfb_schedule,
    chunk_count,
)
from treadle.synthesis.bfb.value import BfbValue, bfb_reduce_scatter_value, bfb_value

__all__ = [
    "BfbValue",
    "bfb_allgather",
    "bfb_broadcast",
    "bfb_reduce_scatter",
    "bfb_reduce_scatter_value",
    "bfb_schedule",
    "bfb_value",
    "chunk_count",
]
