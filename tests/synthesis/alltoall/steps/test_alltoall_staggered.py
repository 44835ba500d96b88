"""Routes repeated, each hop a step behind the one before: a time that is bounded on any fabric."""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samples import exchange_samples as samples
from samples.strategies import digraphs
from treadle.context import Context, TimeLimitError, under
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.synthesis.alltoall.rate.rate import optimal_rate
from treadle.synthesis.alltoall.routes.extract import extract_paths
from treadle.synthesis.alltoall.routes.integral_units import rounded_routes
from treadle.synthesis.alltoall.routes.shortest_paths import split_over_shortest_paths
from treadle.synthesis.alltoall.steps.rounds import fewest_rounds
from treadle.synthesis.alltoall.steps.staggered import rounds_within, staggered
from treadle.topologies import parse
from treadle.topologies.topology import Topology, TopologyBuilder

UNLIKE = [(3, 2, 2), (1, 3, 2), (2, 4, 1), (2, 0, 1), (0, 1, 2), (4, 1, 375)]
"""Links between 5 nodes, with bandwidths, on which queues take a twelfth longer than their routes."""


def _unlike() -> Topology:
    builder = TopologyBuilder("unlike")
    for node in range(5):
        builder.compute(f"n{node}")
    for tail, head, bandwidth in UNLIKE:
        builder.link(f"n{tail}", f"n{head}", bandwidth)
    return builder.build()


def _busiest(topology: Topology, routes: RouteSchedule) -> Fraction:
    """Seconds per unit of demand for which some link is busy at least."""
    load = np.bincount(routes.path_links, np.repeat(routes.units, routes.hops), topology.n_links).astype(int)
    pairs = zip(load.tolist(), topology.bandwidths.tolist(), strict=True)
    return max(Fraction(units, routes.n_chunks * bandwidth) for units, bandwidth in pairs)


def _optimal_routes(topology: Topology) -> RouteSchedule:
    collective = samples.alltoall(topology)
    flow = optimal_rate(topology, collective).flow.by_source
    return rounded_routes(collective, extract_paths(topology, collective, flow))


@settings(max_examples=9, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_fabric_takes_no_longer_than_so_many_rounds(data: st.DataObject) -> None:
    topology = data.draw(digraphs(compute=(2, 5)))
    demands = samples.random_demands(len(topology.compute_nodes), data.draw(st.integers(0, 9)))
    collective = samples.alltoall(topology, demands)
    routes = split_over_shortest_paths(topology, collective, max_chunks=60)
    rounds, longest = data.draw(st.integers(1, 9)), int(routes.hops.max())
    schedule = staggered(topology, collective, routes, rounds=rounds)
    assert samples.is_correct(topology, collective, schedule)
    seconds = samples.seconds_per_byte(topology, collective, schedule) * demands.buffer_units
    assert seconds <= _busiest(topology, routes) * Fraction(rounds + longest - 1, rounds)
    assert schedule.n_steps <= rounds + longest - 1


def test_steps_come_near_the_rate_where_bandwidths_differ() -> None:
    topology = _unlike()
    collective, routes = samples.alltoall(topology), _optimal_routes(topology)
    units = collective.pair_demands.buffer_units
    algbw = units / _busiest(topology, routes)
    schedule = fewest_rounds(topology, collective, routes, algbw)
    assert samples.is_correct(topology, collective, schedule)
    assert samples.seconds_per_byte(topology, collective, schedule) * algbw <= Fraction(102, 100)


def test_few_chunks_still_arrive() -> None:
    topology = parse("generalized_kautz:3,8")
    collective = samples.alltoall(topology)
    routes = split_over_shortest_paths(topology, collective)
    schedule = staggered(topology, collective, routes, rounds=7, max_chunks=routes.n_chunks)
    assert schedule.n_chunks == routes.n_chunks
    assert samples.is_correct(topology, collective, schedule)


@pytest.mark.parametrize("name", ["generalized_kautz:2,9", "torus:3,4", "unlike"])
def test_as_many_rounds_as_a_loss_asks_for_are_the_fewest(name: str) -> None:
    topology = _unlike() if name == "unlike" else parse(name)
    collective, routes = samples.alltoall(topology), _optimal_routes(topology)
    at_most, busiest = Fraction(1, 40), _busiest(topology, routes)
    rounds = rounds_within(topology, routes, float(at_most))
    assert rounds > int(routes.hops.max())

    def loss(number: int) -> Fraction:
        schedule = staggered(topology, collective, routes, rounds=number, max_chunks=number * routes.n_chunks)
        return 1 - busiest / (
            samples.seconds_per_byte(topology, collective, schedule) * collective.pair_demands.buffer_units
        )

    assert loss(rounds) <= at_most + Fraction(1, 10**9)
    assert loss(rounds - 1) > at_most


def test_routes_that_carry_little_move_in_fewer_rounds() -> None:
    topology = parse("torus:3,3")
    matrix = np.ones((9, 9), dtype=np.int64)
    matrix[0] = 10**4
    np.fill_diagonal(matrix, 0)
    collective = samples.alltoall(topology, Demands(matrix))
    routes = split_over_shortest_paths(topology, collective)
    every, few = (
        staggered(topology, collective, routes, rounds=64, max_chunks=2**16, max_sends=most)
        for most in (None, 2000)
    )
    assert few.sends.n_sends <= 2000 < every.sends.n_sends / 4
    assert samples.is_correct(topology, collective, few)
    times = [samples.seconds_per_byte(topology, collective, schedule) for schedule in (every, few)]
    assert times[1] <= times[0] * Fraction(1002, 1000)


def test_bad_rounds_and_deadlines_are_refused() -> None:
    topology = parse("ring:4")
    collective = samples.alltoall(topology)
    routes = split_over_shortest_paths(topology, collective)
    with pytest.raises(ScheduleError, match="rounds: expected at least 1, found 0"):
        staggered(topology, collective, routes, rounds=0)
    with pytest.raises(TimeLimitError), under(Context(None, time.monotonic() - 1)):
        staggered(topology, collective, routes, rounds=2)
