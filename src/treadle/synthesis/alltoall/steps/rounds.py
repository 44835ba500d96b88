"""Granularity of pipelining an all-to-all: for a size, or for its asymptotic throughput."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from treadle.errors import ScheduleError
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.exchange_cost import exchange_algbw, exchange_runtime_s
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.steps.pipelined import MAX_CHUNKS, hop_synchronous, pipelined
from treadle.synthesis.alltoall.steps.staggered import staggered
from treadle.topologies.topology import Topology

ROUNDS = (8, 16, 32, 64, 128)
"""Numbers of rounds to try; a schedule has about as many steps."""

_NEAR = Fraction(199, 200)
"""Sufficient fraction of the routes' throughput."""

_MOST_SENDS = 2**21
"""Sends, K for each hop, up to which routes are repeated where queues are too slow."""


def fewest_rounds(
    topology: Topology,
    collective: Collective,
    routes: RouteSchedule,
    routes_algbw: Fraction,
    *,
    max_chunks: int = MAX_CHUNKS,
) -> ExchangeSchedule:
    """Use hop-synchronous steps, or the fewest rounds that come within 0.5% of the routes' rate.

    Queues (`pipelined`) are tried first, then repetition (`staggered`).

    Parameters
    ----------
    topology : Topology
    collective : Collective
    routes : RouteSchedule
    routes_algbw : Fraction
        Rate of the routes, bytes/s.
    max_chunks : int
        Limit of chunks per shard.

    Returns
    -------
    ExchangeSchedule
        The best that was tried.
    """
    best = hop_synchronous(topology, collective, routes, max_chunks=max_chunks)
    reached = exchange_algbw(topology, collective, best)
    for generate, rounds in product((pipelined, staggered), ROUNDS):
        too_many = generate is staggered and rounds * len(routes.path_links) > _MOST_SENDS
        if reached >= _NEAR * routes_algbw or too_many:
            break
        found = generate(topology, collective, routes, rounds=rounds, max_chunks=max_chunks)
        algbw = exchange_algbw(topology, collective, found)
        if algbw > reached:
            best, reached = found, algbw
    return best


def fastest_at_size(
    topology: Topology,
    collective: Collective,
    routes: RouteSchedule,
    size_bytes: int,
    *,
    alpha_s: float,
    max_chunks: int = MAX_CHUNKS,
) -> ExchangeSchedule:
    """Choose the number of rounds that is fastest in the alpha-beta model.

    Parameters
    ----------
    topology : Topology
        Its links' own latencies count.
    collective : Collective
    routes : RouteSchedule
    size_bytes : int
        The larger per-rank buffer.
    alpha_s : float
        Added per step, seconds.
    max_chunks : int
        Limit of chunks per shard.

    Raises
    ------
    ScheduleError
        If the routes do not implement the collective, or size or latency are negative.
    """
    if size_bytes < 0 or not alpha_s >= 0:
        raise ScheduleError(f"size {size_bytes} and latency {alpha_s} s: expected neither to be negative")
    best = hop_synchronous(topology, collective, routes, max_chunks=max_chunks)
    least = exchange_runtime_s(topology, collective, best, size_bytes, alpha_s=alpha_s)
    for number in (2, 4, *ROUNDS):  # more rounds save bandwidth time and cost latency
        if number * alpha_s >= least:
            break
        found = pipelined(topology, collective, routes, rounds=number, max_chunks=max_chunks)
        time = exchange_runtime_s(topology, collective, found, size_bytes, alpha_s=alpha_s)
        if time < least:
            best, least = found, time
    return best
