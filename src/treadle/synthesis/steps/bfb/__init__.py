"""Breadth-first-broadcast schedules (dissertation, section 3.6 and appendix A.5), exact and without an LP."""

from treadle.synthesis.steps.bfb.breadth_first import (
    bfb_allgather,
    bfb_broadcast,
    bfb_reduce_scatter,
    bfb_schedule,
    chunk_count,
)
from treadle.synthesis.steps.bfb.conditions import (
    DistanceConstants,
    distance_constants,
    is_bw_optimal,
    meets_theorem_17,
    meets_theorem_18,
    meets_theorem_19,
)
from treadle.synthesis.steps.bfb.discrete import discrete_allgather, discrete_t_b, rounding_bound
from treadle.synthesis.steps.bfb.heterogeneous import (
    HeterogeneousValue,
    heterogeneous_allgather,
    heterogeneous_value,
    schedule_for_size,
)
from treadle.synthesis.steps.bfb.orbit import bfb_orbit, circulant_graph, orbit_value, torus_graph
from treadle.synthesis.steps.bfb.orbit_check import find_orbit_faults
from treadle.synthesis.steps.bfb.orbit_schedule import OrbitSchedule
from treadle.synthesis.steps.bfb.value import BfbValue, bfb_reduce_scatter_value, bfb_value

__all__ = [
    "BfbValue",
    "DistanceConstants",
    "HeterogeneousValue",
    "OrbitSchedule",
    "bfb_allgather",
    "bfb_broadcast",
    "bfb_orbit",
    "bfb_reduce_scatter",
    "bfb_reduce_scatter_value",
    "bfb_schedule",
    "bfb_value",
    "chunk_count",
    "circulant_graph",
    "discrete_allgather",
    "discrete_t_b",
    "distance_constants",
    "find_orbit_faults",
    "heterogeneous_allgather",
    "heterogeneous_value",
    "is_bw_optimal",
    "meets_theorem_17",
    "meets_theorem_18",
    "meets_theorem_19",
    "orbit_value",
    "rounding_bound",
    "schedule_for_size",
    "torus_graph",
]
