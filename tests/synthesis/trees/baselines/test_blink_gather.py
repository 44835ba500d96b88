"""Blink's allgather: all shards go through one rank, and what each link carries follows from the packing."""

from __future__ import annotations

import pytest

from treadle import planning

FABRICS = ("dgx_a100(2)", "dgx1_v100()", "torus(3, 3)", "hypercube(3)", "ring(5)")


@pytest.mark.parametrize("fabric", FABRICS)
def test_gathers_are_verified_and_no_slower_than_the_allreduce(fabric: str) -> None:
    """Without the sum an edge carries its subtree's shards, at most all of them: what the allreduce sends."""
    allreduce = planning.solve(fabric, "allreduce", algorithm="blink")
    for kind in ("allgather", "reduce-scatter"):
        found = planning.solve(fabric, kind, algorithm="blink")
        assert found.report.is_ok
        assert allreduce.algbw <= found.algbw <= found.optimal_algbw
