"""Routes in the simulator: cut-through along whole paths, near the exact formula."""

from __future__ import annotations

import pytest

from treadle import planning
from treadle.schedules.alltoall.route_cost import route_runtime
from treadle.simulation.simulation_options import SimulationOptions

FABRIC = 'torus(3, 3, bandwidth="10GB/s", latency="500ns")'


@pytest.mark.parametrize("size", [1024, 2**20, 2**26])
def test_routes_take_what_the_formula_says(size: int) -> None:
    """Alpha, the longest path, and the bytes over the fullest link: all messages set out at once."""
    plan = planning.solve(FABRIC, "alltoall", algorithm="routes").plan
    options = SimulationOptions(alpha_ns=10_000, least_slice_bytes=1)
    (row,) = planning.simulate(plan, [size], options=options).rows
    formula = route_runtime(plan.topology, plan.collective, plan.entries[0].schedule, size, alpha_ns=10_000)
    assert row.alpha_beta == formula
    assert formula <= row.time <= formula * 1.01


def test_rounds_without_a_barrier_overlap() -> None:
    """Ranks wait for their own rounds only, so they are no slower than rounds that all wait for all."""
    plan = planning.solve(FABRIC, "alltoall", algorithm="routes", max_flows=1).plan
    (row,) = planning.simulate(plan, [2**26]).rows
    assert row.time <= row.alpha_beta
    assert row.algbw_bytes_per_s <= plan.optimal_algbw
