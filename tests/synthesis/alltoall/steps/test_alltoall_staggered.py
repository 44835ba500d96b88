"""Routes repeated, each hop a step behind the one before: a time that is bounded on any fabric."""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np
import pytest

from samples import exchange_samples as samples
from treadle.context import Context, TimeLimitError, under
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.synthesis.alltoall.rate.rate import optimal_rate
from treadle.synthesis.alltoall.routes.extract import extract_paths
from treadle.synthesis.alltoall.routes.integral_units import rounded_routes
from treadle.synthesis.alltoall.routes.shortest_paths import split_over_shortest_paths
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


def test_bad_rounds_and_deadlines_are_refused() -> None:
    topology = parse("ring:4")
    collective = samples.alltoall(topology)
    routes = split_over_shortest_paths(topology, collective)
    with pytest.raises(ScheduleError, match="rounds: expected at least 1, found 0"):
        staggered(topology, collective, routes, rounds=0)
    with pytest.raises(TimeLimitError), under(Context(None, time.monotonic() - 1)):
        staggered(topology, collective, routes, rounds=2)
