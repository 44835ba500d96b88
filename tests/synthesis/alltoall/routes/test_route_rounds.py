"""Rounds of routed chunks: every chunk once, links and hosts within their limits, near the optimum."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.route_cost import route_algbw
from treadle.schedules.alltoall.routes import routes_from_paths
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.topologies.topology import TopologyBuilder
from treadle.verification.routes.round_check import verify_timed_routes


@pytest.mark.parametrize("is_sender", [True, False])
def test_caps_bound_a_round_out_and_in(is_sender: bool) -> None:
    """One host has, or gets, two chunks at once through a cap a tenth of its links' bandwidth."""
    builder = TopologyBuilder("star")
    names = [builder.compute(f"n{node}", injection_bytes_per_s=int(node == 0)) for node in range(3)]
    for leaf in names[1:]:
        builder.duplex(names[0], leaf, 10)
    star = builder.build()
    out = np.array([[0, 1, 1], [0, 0, 0], [0, 0, 0]])
    wanted = Demands(out if is_sender else out.transpose())
    collective = Collective(CollectiveKind.ALLTOALL, (0, 1, 2), demands=wanted)
    ways = [(0, 1, 1, 0, [0]), (0, 2, 1, 0, [2])] if is_sender else [(1, 0, 1, 0, [1]), (2, 0, 1, 0, [3])]
    timed = TimedRoutes(routes_from_paths(3, 1, ways), np.array([0, 2]), np.arange(2))
    assert verify_timed_routes(star, collective, timed).algbw == 1  # 2 units in 2 seconds
    assert route_algbw(star, collective, timed) == 1
