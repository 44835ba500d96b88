"""All-to-all in steps: time-stepped flow, whole chunks, shortest paths and pipelining."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samples import exchange_samples as samples
from samples.strategies import digraphs
from treadle.context import Context, TimeLimitError, under
from treadle.errors import InfeasibleError, ScheduleError
from treadle.math.lp import no_optimum
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.exchange_cost import exchange_runtime_s, step_times
from treadle.schedules.alltoall.routes import RouteSchedule, routes_from_paths
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.rate.rate import optimal_rate
from treadle.synthesis.alltoall.routes.extract import extract_paths
from treadle.synthesis.alltoall.routes.integral_units import least_integral, rounded_routes, rounded_units
from treadle.synthesis.alltoall.routes.shortest_paths import split_over_shortest_paths
from treadle.synthesis.alltoall.steps import time_stepped
from treadle.synthesis.alltoall.steps.pipelined import hop_synchronous, pipelined
from treadle.synthesis.alltoall.steps.rounds import fastest_at_size
from treadle.synthesis.alltoall.steps.time_stepped import TimeSteppedFlow, least_steps, time_stepped_flow
from treadle.synthesis.alltoall.steps.timed_paths import chunked_exchange
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology, TopologyBuilder
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


def test_host_bottleneck_of_the_torus() -> None:
    # figure 2 and section 5.2: hosts inject at 4 links of 6, so f = 2/27 and 26 * f * 3.125 GB/s = 6.01 GB/s
    torus = parse("torus:3,3,3")
    capped = replace(torus, injection_bytes_per_s=np.full(27, 4))
    collective = samples.alltoall(capped)
    flow = time_stepped_flow(capped, collective, 3)
    assert flow.time == pytest.approx(13.5, abs=1e-4)
    assert 26 / flow.time * 3.125 == pytest.approx(6.01, abs=0.01)
    built = chunked_exchange(capped, collective, flow, chunks=200)
    assert float(total(capped, collective, built.schedule)) == pytest.approx(13.5, rel=0.01)
    routes = split_over_shortest_paths(capped, collective)
    assert total(capped, collective, hop_synchronous(capped, collective, routes)) == Fraction(27, 2)
    assert total(capped, collective, pipelined(capped, collective, routes, rounds=8)) < Fraction(
        27, 2
    ) * Fraction(11, 10)


def test_one_more_step_than_the_diameter_may_help() -> None:
    # measured beforehand: 1% on the generalized Kautz graph of degree 4 with 27 nodes, where 1/F = 14.92157
    kautz = parse("generalized_kautz:4,27")
    collective = samples.alltoall(kautz)
    flows = [time_stepped_flow(kautz, collective, n_steps) for n_steps in (3, 4)]
    assert flows[0].time == pytest.approx(15.07466, abs=1e-4)
    assert flows[1].time == pytest.approx(1 / 0.06701708, rel=1e-6)
    times = [chunked_exchange(kautz, collective, flows[1], chunks=chunks).time for chunks in (4, 16, 64, 256)]
    assert times == sorted(times, reverse=True)
    assert float(times[-1]) < flows[1].time * 1.002


def test_first_order_method_on_64_nodes() -> None:
    kautz = parse("generalized_kautz:4,64")
    collective = samples.alltoall(kautz)
    flow = time_stepped_flow(kautz, collective, 4)
    assert not flow.is_exact
    assert flow.time == pytest.approx(46.0667, abs=1e-3)
    built = chunked_exchange(kautz, collective, flow, chunks=64)
    assert float(total(kautz, collective, built.schedule)) < flow.time * 1.01


def test_bandwidths_far_apart_are_told_from_each_other() -> None:
    """In one step a has only its own narrow link to b, and c its own to a."""
    wide = 10**12
    builder = TopologyBuilder("skew")
    for name in "abc":
        builder.compute(name)
    for tail, head, bandwidth in (
        *(("a", "b", 1), ("b", "a", wide), ("b", "c", wide)),
        *(("c", "b", wide), ("c", "a", 3), ("a", "c", wide)),
    ):
        builder.link(tail, head, bandwidth)
    topology = builder.build()
    collective = samples.alltoall(topology)
    assert time_stepped_flow(topology, collective, 1).time == pytest.approx(1, rel=1e-6)
    assert time_stepped_flow(topology, collective, 2).time == pytest.approx(3 / wide, rel=1e-6)


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


@pytest.mark.parametrize(
    ("name", "expected"),
    [("hypercube:3", 4), ("complete_bipartite:4,4", Fraction(5, 2)), ("torus:3,3,3", 9), ("hypercube:5", 16)],
)
def test_shortest_paths_hop_by_hop_are_optimal_on_symmetric_fabrics(name: str, expected: Fraction) -> None:
    topology = parse(name)
    collective = samples.alltoall(topology)
    schedule = hop_synchronous(topology, collective, split_over_shortest_paths(topology, collective))
    assert total(topology, collective, schedule) == expected
    assert schedule.n_steps == least_steps(topology, collective)


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


def test_rounds_suit_the_size() -> None:
    kautz = parse('generalized_kautz(4, 27, bandwidth="1GB/s")')
    collective = samples.alltoall(kautz)
    routes = rounded_routes(
        collective, extract_paths(kautz, collective, optimal_rate(kautz, collective).flow.by_source)
    )
    sizes = (2**10, 2**20, 2**34)
    found = [fastest_at_size(kautz, collective, routes, size, alpha_s=1e-5) for size in sizes]
    steps = [schedule.n_steps for schedule in found]
    assert steps == sorted(steps)
    assert steps[0] == routes.hops.max()
    assert steps[-1] > steps[0]
    for schedule, size in zip(found, sizes, strict=True):
        for other in found:
            times = [exchange_runtime_s(kautz, collective, s, size, alpha_s=1e-5) for s in (schedule, other)]
            assert times[0] <= times[1]
    with pytest.raises(ScheduleError, match="neither to be negative"):
        fastest_at_size(kautz, collective, routes, 1, alpha_s=-1.0)


# --- any fabric --------------------------------------------------------------------------------------------


@settings(max_examples=14, derandomize=True, deadline=None)
@given(st.data())
def test_any_fabric(data: st.DataObject) -> None:
    topology = data.draw(digraphs())
    n = len(topology.compute_nodes)
    caps = data.draw(st.one_of(st.just([0] * n), st.lists(st.integers(0, 8), min_size=n, max_size=n)))
    topology = replace(topology, injection_bytes_per_s=np.array(caps))
    n_ranks = data.draw(st.integers(2, n))
    demands = data.draw(
        st.one_of(st.none(), st.integers(0, 99).map(lambda seed: samples.random_demands(n_ranks, seed)))
    )
    collective = samples.alltoall(topology, demands, n_ranks=n_ranks)
    n_steps = least_steps(topology, collective) + data.draw(st.integers(0, 2))
    flow = time_stepped_flow(topology, collective, n_steps)
    built = chunked_exchange(topology, collective, flow, chunks=1000)
    exact = float(total(topology, collective, built.schedule))
    assert flow.time * (1 - 1e-6) <= exact <= flow.time * 1.05 + 1e-9
    routes = split_over_shortest_paths(
        topology, collective, max_chunks=data.draw(st.sampled_from([1, 7, 5040]))
    )
    direct = hop_synchronous(topology, collective, routes)
    assert float(total(topology, collective, direct)) >= (1 - 1e-6) * time_of(topology, collective)
    for rounds in (1, 4):
        schedule = pipelined(topology, collective, routes, rounds=rounds)
        assert float(total(topology, collective, schedule)) >= (1 - 1e-6) * time_of(topology, collective)


def time_of(topology: Topology, collective: Collective) -> float:
    """What no schedule can beat, by the rate's upper side."""
    return float(1 / optimal_rate(topology, collective, gap=1e-2).upper)


def test_uneven_demands_keep_their_shares() -> None:
    torus = parse("torus:3,3")
    collective = samples.alltoall(torus, samples.random_demands(9, seed=3, most=1000))
    routes = split_over_shortest_paths(torus, collective)
    for chunks in (1, 3, 100, 2**16):
        schedule = hop_synchronous(torus, collective, routes, max_chunks=chunks)
        assert schedule.n_chunks <= chunks
        total(torus, collective, schedule)
    assert schedule.n_chunks == 2


def test_circles_are_cut_out_of_timed_paths() -> None:
    # a flow may go to and fro at no cost where links are idle; its schedule waits instead
    path = from_arcs("path", [0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2], n=4)
    matrix = np.zeros((4, 4), dtype=np.int64)
    matrix[0, 3] = 1
    collective = samples.alltoall(path, Demands(matrix))
    by_step = np.zeros((5, 4, 6))
    for step, link in enumerate((0, 1, 4, 1, 2)):
        by_step[step, 0, link] = 1.0
    built = chunked_exchange(path, collective, TimeSteppedFlow(by_step, np.ones(5), True))
    assert samples.sends_of(built.schedule) == [(0, 0, 0, 0, 1), (0, 1, 3, 0, 1), (0, 2, 4, 0, 1)]
    assert total(path, collective, built.schedule) == 3


# --- whole chunks ------------------------------------------------------------------------------------------


def test_common_denominators_and_remainders() -> None:
    assert least_integral(np.array([0.5, 0.25, 1 / 3])) == 12
    assert least_integral(np.array([0.123456])) == 64
    pair = np.array([0, 0, 0, 1, 1])
    units = rounded_units(pair, np.array([1 / 3, 1 / 3, 1 / 3, 0.2, 0.8]) * 10, np.array([10, 10]))
    assert sorted(units[:3].tolist()) == [3, 3, 4]
    assert units[3:].tolist() == [2, 8]


def test_routes_that_need_more_chunks_than_allowed_are_rounded() -> None:
    cube = parse("hypercube:3")
    collective = samples.alltoall(cube)
    routes = split_over_shortest_paths(cube, collective)
    times = []
    for chunks in (1, 2, 5, 6):
        schedule = hop_synchronous(cube, collective, routes, max_chunks=chunks)
        assert schedule.n_chunks == chunks
        times.append(total(cube, collective, schedule))
    assert times[-1] == 4 < times[0]


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


def test_deadlines_are_kept() -> None:
    kautz = parse("generalized_kautz:4,64")
    collective = samples.alltoall(kautz)
    with pytest.raises(TimeLimitError), under(Context(deadline=time.monotonic())):
        time_stepped_flow(kautz, collective, 4)


def test_parallel_links_share_the_load() -> None:
    pair = from_arcs("pair", [0, 0, 1], [1, 1, 0], n=2)
    collective = samples.alltoall(pair)
    schedule = hop_synchronous(pair, collective, split_over_shortest_paths(pair, collective))
    assert total(pair, collective, schedule) == 1
    assert schedule.n_sends == 3
    flow = time_stepped_flow(pair, collective, 1)
    assert flow.by_step[0, 0, :2].sum() == pytest.approx(1)
    routes = routes_from_paths(2, 1, [(0, 1, 1, 0, [0]), (1, 0, 1, 0, [2])])
    assert total(pair, collective, pipelined(pair, collective, routes, rounds=1)) == 1
