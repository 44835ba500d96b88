"""All-to-all in steps: time-stepped flow, whole chunks, shortest paths and pipelining."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from samples import exchange_samples as samples
from treadle.errors import InfeasibleError, ScheduleError
from treadle.math.lp import no_optimum
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.exchange_cost import step_times
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.rate.rate import optimal_rate
from treadle.synthesis.alltoall.routes.extract import extract_paths
from treadle.synthesis.alltoall.routes.integral_units import rounded_routes
from treadle.synthesis.alltoall.routes.shortest_paths import split_over_shortest_paths
from treadle.synthesis.alltoall.steps import time_stepped
from treadle.synthesis.alltoall.steps.pipelined import hop_synchronous, pipelined
from treadle.synthesis.alltoall.steps.time_stepped import least_steps, time_stepped_flow
from treadle.synthesis.alltoall.steps.timed_paths import chunked_exchange
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify


def total(topology: Topology, collective: Collective, schedule: ExchangeSchedule) -> Fraction:
    """Seconds per unit of demand of a schedule that the verifier accepts."""
    report = verify(topology, collective, schedule)
    assert report.is_ok, report.violations[:3]
    time = sum(step_times(topology, collective, schedule), Fraction(0))
    assert report.algbw == collective.pair_demands.buffer_units / time
    return time


def busiest(topology: Topology, routes: RouteSchedule) -> Fraction:
    """Seconds per unit of demand for which the routes keep their busiest link busy."""
    load = np.bincount(routes.path_links, weights=np.repeat(routes.units, routes.hops)).astype(int)
    return max(
        Fraction(int(units), routes.n_chunks * int(topology.bandwidths[link]))
        for link, units in enumerate(load)
    )


# --- published values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "n_steps", "expected"),
    [
        # figure 3 of the all-to-all paper: the topologies of its 8-node testbed
        ("hypercube:3", 3, 4.0),
        ("twisted_hypercube:3", 2, 4.0),
        ("complete_bipartite:4,4", 2, 2.5),
        # section 5.4: f = 1/9 of a link on the 3x3x3 torus
        ("torus:3,3,3", 3, 9.0),
    ],
)
def test_time_stepped_flow_reaches_the_published_optimum(name: str, n_steps: int, expected: float) -> None:
    topology = parse(name)
    collective = samples.alltoall(topology)
    assert least_steps(topology, collective) == n_steps
    flow = time_stepped_flow(topology, collective, n_steps)
    assert flow.is_exact
    assert flow.time == pytest.approx(expected, abs=1e-8)
    built = chunked_exchange(topology, collective, flow)
    assert built.time == total(topology, collective, built.schedule)
    assert built.time <= Fraction(expected) * Fraction(101, 100)
    assert built.loss == pytest.approx(float(built.time) / expected - 1)


def test_a_solver_that_fails_may_owe_it_to_bandwidths_far_apart() -> None:
    modest = no_optimum("path LP", "kUnknown", np.array([1, 10**3]))
    assert str(modest) == "path LP: solver ended with kUnknown, expected an optimum"
    wide = no_optimum("path LP", "kUnknown", np.array([1, 10**12]))
    assert re.search(r"widest link has 1e\+12 times .* leave the narrowest links out", str(wide))


def test_time_stepped_programs_are_counted_before_they_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ring of 3 in 2 steps: 6 flows and 2 holds a source, and 2 times."""
    topology = parse("ring(3)")
    collective = samples.alltoall(topology)
    for n_steps in (10**6, 10**30):
        with pytest.raises(ScheduleError, match="variables or more, at most 8388608"):
            time_stepped_flow(topology, collective, n_steps)
    monkeypatch.setattr(time_stepped, "MAX_VARIABLES", 26)
    assert time_stepped_flow(topology, collective, 2).is_exact
    monkeypatch.setattr(time_stepped, "MAX_VARIABLES", 25)
    with pytest.raises(ScheduleError, match="would have 26 variables"):
        time_stepped_flow(topology, collective, 2)


@pytest.mark.parametrize("name", ["generalized_kautz:4,27", "torus:3,4", "generalized_kautz:3,14"])
def test_optimal_flows_are_pipelined_at_their_rate(name: str) -> None:
    topology = parse(name)
    collective = samples.alltoall(topology)
    paths = extract_paths(topology, collective, optimal_rate(topology, collective).flow.by_source)
    routes = rounded_routes(collective, paths)
    least = busiest(topology, routes)
    longest = int(routes.hops.max())
    for rounds in (1, 4, 16, 48):
        schedule = pipelined(topology, collective, routes, rounds=rounds)
        time = total(topology, collective, schedule)
        # K rounds one after another would take (K + D - 1)/K of the routes' time, and a little for rounding
        assert least <= time <= least * Fraction(rounds + longest, rounds)
        assert schedule.n_steps >= min(rounds, longest)
    assert time <= least * Fraction(103, 100)


# --- any fabric --------------------------------------------------------------------------------------------


# --- whole chunks ------------------------------------------------------------------------------------------


# --- bad input ---------------------------------------------------------------------------------------------


def test_what_cannot_be_is_refused() -> None:
    cube = parse("hypercube:3")
    collective = samples.alltoall(cube)
    routes = split_over_shortest_paths(cube, collective)
    with pytest.raises(InfeasibleError, match="steps: 2 do not reach every rank; expected at least 3"):
        time_stepped_flow(cube, collective, 2)
    flow = time_stepped_flow(cube, collective, 3)
    for chunks in (0, 2**24 + 1):
        with pytest.raises(ScheduleError, match="expected 1 to 2"):
            chunked_exchange(cube, collective, flow, chunks=chunks)
    with pytest.raises(InfeasibleError, match="of some demand, expected all of it"):
        chunked_exchange(cube, collective, replace(flow, by_step=flow.by_step * 0.5))
    with pytest.raises(ScheduleError, match="rounds: expected at least 1"):
        pipelined(cube, collective, routes, rounds=0)
    for build in (hop_synchronous, lambda *args, **options: pipelined(*args, rounds=2, **options)):
        with pytest.raises(ScheduleError, match="chunks: expected at least 1"):
            build(cube, collective, routes, max_chunks=0)
        with pytest.raises(ScheduleError, match="carry another all-to-all"):
            build(cube, samples.alltoall(cube, samples.random_demands(8, 1)), routes)
    with pytest.raises(ScheduleError, match="links 0 to 23"):
        hop_synchronous(cube, collective, replace(routes, path_links=routes.path_links + 23))
    with pytest.raises(ScheduleError, match="at least 1 per unit"):
        split_over_shortest_paths(cube, collective, max_chunks=0)


def test_unreachable_ranks_and_switches_are_named() -> None:
    one_way = from_arcs("one way", [0], [1], n=2)
    for work in (split_over_shortest_paths, least_steps):
        with pytest.raises(InfeasibleError, match=r"no path .*leads from 'n1' to 'n0'"):
            work(one_way, samples.alltoall(one_way))
    box = parse("dgx_a100:1")
    collective = samples.alltoall(box)
    with pytest.raises(InfeasibleError, match="over compute nodes"):
        least_steps(box, collective)
    with pytest.raises(ScheduleError, match="cannot store and forward"):
        hop_synchronous(box, collective, split_over_shortest_paths(box, collective))
