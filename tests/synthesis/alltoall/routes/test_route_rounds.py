"""Rounds of routed chunks: every chunk once, links and hosts within their limits, near the optimum."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.errors import ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.route_cost import route_algbw
from treadle.schedules.alltoall.routes import RouteSchedule, routes_from_paths
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.baselines import single_source_shortest_paths
from treadle.synthesis.alltoall.routes.path_sets import PathSet
from treadle.synthesis.alltoall.routes.route_columns import generate_routes
from treadle.synthesis.alltoall.routes.route_rounds import timed_routes
from treadle.synthesis.alltoall.routes.route_units import route_schedule
from treadle.synthesis.alltoall.routes.shortest_paths import split_over_shortest_paths
from treadle.synthesis.alltoall.routes.virtual_channels import lash_layers
from treadle.topologies import complete, parse
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.verification.routes.round_check import verify_timed_routes


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
    timed = timed_routes(topology, made.schedule, max_flows=flows)
    n = topology.n_nodes
    assert np.bincount(timed.path, minlength=made.schedule.n_paths).tolist() == made.schedule.units.tolist()
    for number in range(timed.n_rounds):
        paths = timed.path[timed.span(number)]
        assert paths.size
        links = np.concatenate([made.schedule.path(p) for p in paths])
        assert np.bincount(links).max() == 1
        assert np.bincount(made.schedule.source[paths]).max() <= flows
        assert np.bincount(made.schedule.target[paths]).max() <= flows
    algbw = Fraction(n * chunks, timed.n_rounds)
    layered = TimedRoutes(with_layers(topology, timed.routes), timed.round_offset, timed.path)
    report = verify_timed_routes(topology, collective, layered, max_flows=flows, claimed_algbw=algbw)
    assert report.is_ok, report.violations
    assert report.n_steps == timed.n_rounds
    injection = Fraction(n * flows, n - 1)  # a host sends (N - 1) P chunks, `flows` a round
    assert part * min(made.algbw, injection) <= algbw <= min(made.algbw, injection)


def test_slow_links_make_long_rounds() -> None:
    topology = complete(3, bandwidth=4)
    collective = on_all_ranks(topology, CollectiveKind.ALLTOALL)
    best = generate_routes(topology, collective).routing
    schedule = route_schedule(topology, collective, best.paths, best.weights).schedule
    for flows, algbw in ((2, 12), (1, 6)):
        timed = timed_routes(topology, schedule, max_flows=flows)
        assert verify_timed_routes(topology, collective, timed, max_flows=flows).algbw == algbw
    with pytest.raises(ScheduleError, match="at most 0 flows"):
        timed_routes(topology, schedule, max_flows=0)
    found = verify_timed_routes(
        topology, collective, timed_routes(topology, schedule, max_flows=2), max_flows=1
    )
    assert {str(violation).split(" chunks")[0] for violation in found.violations} == {
        f"limit: round 0: rank {rank} {does} 2" for rank in range(3) for does in ("sends", "gets")
    }


@settings(derandomize=True, max_examples=21, deadline=None)
@given(st.integers(0, 55), st.integers(0, 55))
def test_changed_rounds_are_rejected(place: int, path: int) -> None:
    """Each chunk sets out once: to send another one instead breaks that."""
    topology = parse("hypercube(3)")
    collective = on_all_ranks(topology, CollectiveKind.ALLTOALL)
    routes = with_layers(topology, split_over_shortest_paths(topology, collective, max_chunks=1))
    timed = timed_routes(topology, routes, max_flows=3)
    changed = timed.path.copy()
    changed[place] = path
    report = verify_timed_routes(
        topology, collective, TimedRoutes(routes, timed.round_offset, changed), max_flows=3
    )
    assert report.is_ok == (path == timed.path[place])


def test_malformed_rounds() -> None:
    topology = parse("hypercube(3)")
    routes = split_over_shortest_paths(
        topology, on_all_ranks(topology, CollectiveKind.ALLTOALL), max_chunks=1
    )
    timed = timed_routes(topology, routes, max_flows=3)
    assert timed == TimedRoutes(routes, timed.round_offset.copy(), timed.path.copy())
    assert hash(timed) == hash(timed_routes(topology, routes, max_flows=3))
    with pytest.raises(ScheduleError, match="must rise from 0 to 56"):
        TimedRoutes(routes, timed.round_offset[:-1], timed.path)
    with pytest.raises(ScheduleError, match="expected 0 to 55"):
        TimedRoutes(routes, timed.round_offset, timed.path + 1)


def with_layers(topology: Topology, routes: RouteSchedule) -> RouteSchedule:
    paths = PathSet(routes.source, routes.target, routes.path_offset, routes.path_links)
    return replace(routes, layer=lash_layers(paths, topology.n_links))


def test_limits_and_a_chunk_that_sets_out_again() -> None:
    fabric = parse("complete:3")
    everyone = on_all_ranks(fabric, CollectiveKind.ALLTOALL)
    routes = single_source_shortest_paths(fabric, everyone)
    good = TimedRoutes(routes, np.array([0, 6]), np.arange(6))
    assert verify_timed_routes(fabric, everyone, good, max_routes=1, max_layers=1).is_ok
    assert not verify_timed_routes(fabric, everyone, good, max_routes=0).is_ok
    assert not verify_timed_routes(fabric, everyone, good, max_layers=0).is_ok
    again = TimedRoutes(routes, np.array([0, 6, 7]), np.append(np.arange(6), 4))
    assert [str(fault) for fault in verify_timed_routes(fabric, everyone, again).violations] == [
        "delivery: path 4: 2 chunks set out, expected 1"
    ]


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
