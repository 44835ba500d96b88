"""All-to-alls by default on small fabrics: pipelined routes and time-stepped flows, the better of the two."""

from __future__ import annotations

import numpy as np

from treadle.planning import solve
from treadle.schedules.alltoall.demands import Demands


def test_routes_stay_where_they_are_best() -> None:
    """One pair on a ring: the path of one hop waits in few steps for that of four."""
    amounts = np.zeros((5, 5), dtype=np.int64)
    amounts[0, 1] = 1
    found = solve("ring:5", "alltoall", demands=Demands(amounts))
    assert found.plan.algorithm == "pipelined"
    assert found.notes[-1].startswith("pipelined: ")
    assert "; tsmcf: " in found.notes[-1]
