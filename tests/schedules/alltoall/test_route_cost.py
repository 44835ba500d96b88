"""What routes cost, against Fractions chunk by chunk, the verifier, and times by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from samples import route_samples as samples
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.route_cost import (
    round_times,
    route_algbw,
    route_loads,
    route_runtime,
    route_time,
)
from treadle.schedules.alltoall.routes import routes_from_paths
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.synthesis.alltoall.routes.route_rounds import timed_routes
from treadle.topologies import parse
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.verification.schedules import verify


def line(*, cap: int = 0) -> Topology:
    """a - sw - b: 10 bytes/s up, 5 down, 100 and 300 ns."""
    builder = TopologyBuilder("line")
    names = [builder.compute(name, injection_bytes_per_s=cap) for name in "ab"]
    builder.switch("sw")
    for name in names:
        builder.link(name, "sw", 10, latency_ns=100)
        builder.link("sw", name, 5, latency_ns=300)
    return builder.build()


@pytest.mark.parametrize("name", ["generalized_kautz:3,10", "dgx_a100:1", "torus:3,3", "mi250:1"])
@pytest.mark.parametrize("flows", [None, 1, 3])
def test_costs_are_those_of_single_chunks(name: str, flows: int | None) -> None:
    topology = parse(name)
    n = len(topology.compute_nodes)
    for demands in (None, samples.random_demands(n, seed=n)):
        collective = samples.alltoall(topology, demands)
        schedule = samples.over_shortest_paths(topology, collective)
        if flows is not None:
            schedule = timed_routes(topology, schedule, max_flows=flows)
            assert 1 <= schedule.max_flows <= flows
        wanted = samples.slow_algbw(topology, collective, schedule)
        assert route_algbw(topology, collective, schedule) == wanted
        report = verify(topology, collective, schedule, claimed_algbw=wanted)
        assert report.is_ok, report.violations[:1]
        assert (report.n_steps is None) == (flows is None)


def test_a_line_by_hand() -> None:
    fabric = line()
    both = samples.alltoall(fabric)
    routes = routes_from_paths(2, 2, [(0, 1, 1, 0, [0, 3]), (0, 1, 1, 0, [0, 3]), (1, 0, 2, 0, [2, 1])])
    assert route_loads(fabric, routes).tolist() == [2, 2, 2, 2]
    assert route_time(fabric, both, routes) == Fraction(1, 5)
    assert route_algbw(fabric, both, routes) == 10
    assert route_time(line(cap=2), both, routes) == Fraction(1, 2)
    # 100 bytes a rank are 50 for the other: 10 s, and the way of 400 ns
    assert route_runtime(fabric, both, routes, 100, alpha_ns=70) == 10 + Fraction(470, 10**9)
    rounds = TimedRoutes(routes, np.array([0, 2, 4]), np.array([0, 2, 1, 2]))
    assert round_times(fabric, both, rounds) == [Fraction(1, 10), Fraction(1, 10)]
    assert route_algbw(fabric, both, rounds) == 10
    assert route_runtime(fabric, both, rounds, 100, alpha_ns=70) == 10 + 2 * Fraction(470, 10**9)
    slow = TimedRoutes(routes, np.array([0, 2, 4]), np.array([0, 1, 2, 2]))
    assert round_times(fabric, both, slow) == [Fraction(1, 5), Fraction(1, 5)]
    assert round_times(line(cap=2), both, slow) == [Fraction(1, 2), Fraction(1, 2)]
    for capped in (fabric, line(cap=2)):  # the verifier agrees where a path has two chunks in a round
        assert verify(capped, both, slow).algbw == route_algbw(capped, both, slow)
    assert route_algbw(fabric, both, slow) == 5
    assert slow.max_flows == 2
    assert rounds.max_flows == 1


def test_nothing_has_no_throughput() -> None:
    fabric = line()
    nothing = routes_from_paths(2, 1, [])
    both = samples.alltoall(fabric)
    with pytest.raises(ScheduleError, match="carry nothing"):
        route_algbw(fabric, both, nothing)
    assert route_runtime(fabric, both, nothing, 100) == 0
