"""Steps of sparse and unequal demands: several methods, from few steps and coarse chunks to many and fine."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from treadle.context import context
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.exchange_cost import exchange_algbw
from treadle.schedules.alltoall.route_cost import route_algbw
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.schedules.steps.steps import MAX_CHUNKS
from treadle.synthesis.alltoall.routes.integral_units import rounded_routes
from treadle.synthesis.alltoall.routes.path_sets import WeightedPaths
from treadle.synthesis.alltoall.searched.path_search import search_paths
from treadle.synthesis.alltoall.searched.searched_routes import subflow_routes
from treadle.synthesis.alltoall.searched.subflows import cut_demands
from treadle.synthesis.alltoall.steps.hop_steps import routes_in_steps
from treadle.synthesis.alltoall.steps.staggered import rounds_within, staggered
from treadle.topologies.topology import Topology

NEAR = 0.995
"""Fraction of the optimum that suffices."""

_STEPS = 4
"""For each hop of the longest path."""

COARSE, FINE = 128, 2**14
"""Chunks of a shard: that do for most demands, and where they do not."""

_PASSES = 60
"""In which each of them tries to place its hops."""

_LAST_LOSS = 0.004
"""Fraction of the routes' rate that repetition may lose; rounding loses the rest."""

_ROUND_PARTS, _ROUNDED, _MOST_SENDS = (2**8, 2**10, 2**13), 0.9995, 2**22
"""For repeated routes: parts of a shard, the first that leave this rate; approximate sends."""


def fast_enough(
    topology: Topology, collective: Collective, candidates: Iterator[ExchangeSchedule], least: float
) -> ExchangeSchedule:
    """Return the first that reaches a rate, or the best of all, or of those until time runs out."""
    best = next(candidates)
    most = exchange_algbw(topology, collective, best)
    while most < least and not context().is_late and (schedule := next(candidates, None)) is not None:
        algbw = exchange_algbw(topology, collective, schedule)
        if algbw > most:
            best, most = schedule, algbw
    return best


def placed_hops(
    topology: Topology,
    collective: Collective,
    paths: WeightedPaths | None = None,
    *,
    chunks: tuple[int, ...] = (COARSE, FINE),
    max_steps: int | None = None,
) -> Iterator[ExchangeSchedule]:
    """A step for each hop of searched paths, in coarse and fine chunks; then routes repeated many times over.

    Searched paths leave links some free capacity, into which hops fit. Where tight links feed one another
    every schedule in few steps loses much: only rounds are left.

    Parameters
    ----------
    topology : Topology
        Of compute nodes, without injection caps.
    collective : Collective
    paths : WeightedPaths, optional
        Of an optimal flow: to be repeated, instead of searched ones.
    chunks : tuple of int
        Most chunks per shard, rising; with all but the first, hops are also levelled at exponential prices.
    max_steps : int, optional

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached, or not within the steps.
    """
    powers = sorted({1 << (most.bit_length() - 1) for most in chunks})
    for most in powers:
        subflows = cut_demands(topology, collective, max_routes=most, max_hops=max_steps)
        found, _ = search_paths(subflows)
        routes = subflow_routes(subflows, found.offset, found.place, np.zeros(len(found.place), np.int32))
        steps = _STEPS * int(routes.hops.max()) if max_steps is None else max_steps
        for is_tight in (False, True) if most > powers[0] or len(powers) == 1 else (False,):
            yield routes_in_steps(
                topology,
                collective,
                routes,
                max_steps=steps,
                max_chunks=most,
                is_tight=is_tight,
                max_passes=_PASSES,
            )
    if max_steps is None:
        yield from repeated(topology, collective, routes if paths is None else paths, powers[-1])


def repeated(
    topology: Topology, collective: Collective, routes: RouteSchedule | WeightedPaths, most: int
) -> Iterator[ExchangeSchedule]:
    """Routes repeated as often as lets them lose little, in whole chunks for every round; or nothing.

    Parameters
    ----------
    topology : Topology
        Hosts may have injection caps.
    collective : Collective
    routes : RouteSchedule or WeightedPaths
    most : int
        Chunks per shard: where fewer than the fine ones are allowed, nothing is made.
    """
    if most < FINE:
        return
    parts = _ROUND_PARTS[-1]
    if isinstance(routes, WeightedPaths):
        least = _ROUNDED * routes.rate(topology) * collective.pair_demands.buffer_units
        for parts in _ROUND_PARTS:
            rounded = rounded_routes(collective, routes, parts=parts)
            if route_algbw(topology, collective, rounded) >= least:
                break
        routes = rounded
    rounds = rounds_within(topology, routes, _LAST_LOSS)
    if rounds * parts <= MAX_CHUNKS:
        yield staggered(
            topology, collective, routes, rounds=rounds, max_chunks=rounds * parts, max_sends=_MOST_SENDS
        )


def chunks_of_program(collective: Collective, schedule: ExchangeSchedule) -> int:
    """Equal chunks of all data that a program of the schedule has: no send begins or ends within one."""
    sends, weights = schedule.sends, collective.pair_demands.matrix
    of_shard = weights[schedule.sources, schedule.targets]
    cuts = [of_shard[sends.shard] * ends for ends in (sends.low, sends.high)]
    unit = np.gcd.reduce(np.concatenate([weights.reshape(-1) * schedule.n_chunks, *cuts]))
    return int(weights.sum()) * schedule.n_chunks // int(unit)
