"""Plans of an all-to-all on hosts with injection caps."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from treadle import planning
from treadle.topologies import torus


def test_plans_and_routes_respect_caps() -> None:
    fabric = replace(torus(3, 3), injection_bytes_per_s=np.full(9, 3))
    solved = planning.solve(fabric, "alltoall")
    assert solved.report.is_ok
    assert solved.bound is not None
    assert solved.bound.algbw == 9 * Fraction(3, 12)  # 12 units cross each host at 3 links' rate
    assert Fraction(9, 10) * solved.bound.algbw <= solved.algbw <= solved.bound.algbw
    assert planning.verify(solved.plan).is_ok
    routed = planning.routes(fabric)
    assert routed.algbw == routed.bound == 9 * Fraction(1, 3)
    rows = planning.compare(fabric, "alltoall", algorithms=["pipelined", "routes"]).rows
    assert all(row.report is not None and row.report.is_ok for row in rows)
