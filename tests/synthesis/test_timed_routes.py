"""Rounds of routed chunks: every chunk once, links and hosts within their limits, near the optimum."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.route_columns import generate_routes
from treadle.synthesis.alltoall.route_units import route_schedule
from treadle.synthesis.alltoall.timed_routes import timed_routes
from treadle.topologies import complete, parse


@pytest.mark.parametrize(
    ("name", "chunks", "flows", "part"),
    [
        ("torus(3, 3, 3)", 1, 6, 0.8),
        ("torus(3, 3, 3)", 1, 2, 0.6),
        ("generalized_kautz(4, 16)", 8, 4, 0.85),
        ("hypercube(3)", 2, 1, 0.5),
        ("complete(4)", 1, 3, 1.0),
    ],
)
def test_rounds(name: str, chunks: int, flows: int, part: float) -> None:
    topology = parse(name)
    collective = on_all_ranks(topology, CollectiveKind.ALLTOALL)
    best = generate_routes(topology, collective).routing
    made = route_schedule(topology, collective, best.paths, best.weights, chunks=chunks)
    timed = timed_routes(topology, collective, made.schedule, max_flows=flows)
    n = topology.n_nodes
    assert np.bincount(timed.path, minlength=made.schedule.n_paths).tolist() == made.schedule.units.tolist()
    for number in range(timed.n_rounds):
        paths = timed.path[timed.span(number)]
        assert paths.size
        links = np.concatenate([made.schedule.path(p) for p in paths])
        assert np.bincount(links).max() == 1
        assert np.bincount(made.schedule.source[paths]).max() <= flows
        assert np.bincount(made.schedule.target[paths]).max() <= flows
    assert timed.algbw == Fraction(n * chunks, timed.n_rounds)
    injection = Fraction(n * flows, n - 1)  # a host sends (N - 1) P chunks, `flows` a round
    assert part * min(made.algbw, injection) <= timed.algbw <= min(made.algbw, injection)


def test_slow_links_make_long_rounds() -> None:
    topology = complete(3, bandwidth=4)
    collective = on_all_ranks(topology, CollectiveKind.ALLTOALL)
    best = generate_routes(topology, collective).routing
    schedule = route_schedule(topology, collective, best.paths, best.weights).schedule
    assert timed_routes(topology, collective, schedule, max_flows=2).algbw == 12
    assert timed_routes(topology, collective, schedule, max_flows=1).algbw == 6
    with pytest.raises(ScheduleError, match="at most 0 flows"):
        timed_routes(topology, collective, schedule, max_flows=0)
