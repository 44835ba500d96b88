"""TACOS's greedy: verified, as fast as its public code, reproducible by seed, and within a time limit."""

from __future__ import annotations

import pytest

from treadle import planning


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce"])
@pytest.mark.parametrize("fabric", ["torus(3, 3)", "mesh(2, 3)", "kautz(2, 1)", "circulant(10, 1, 3)"])
def test_schedules_are_verified_and_below_the_bound(fabric: str, kind: str) -> None:
    found = planning.solve(fabric, kind, algorithm="tacos", chunks=2)
    assert found.report.is_ok
    assert found.algbw <= found.optimal_algbw
