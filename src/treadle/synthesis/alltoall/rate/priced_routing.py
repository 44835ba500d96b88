"""The rate of an all-to-all of many senders by dual prices: loads of links, no flow by sender.

Each round routes all demands by the lengths of links, a block of senders at a time, and makes links longer
that are fuller than the average. Every mixture of the routings delivers all demands, so its fullest link
proves a rate; lengths prove a bound. Sources: Dial's split over short paths (Transportation Research 5, 1971)
instead of shortest paths alone, which lets few rounds suffice; multiplicative weights (Plotkin, Shmoys and
Tardos, 1995); a step per link that grows while its sign stays (Riedmiller and Braun, RPROP, 1993).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from treadle.arrays import Float64Array, Int64Array
from treadle.engine import core, run_core
from treadle.synthesis.alltoall.rate.certificate import RateResult, certified_orbits
from treadle.synthesis.alltoall.rate.flow import delivered_fraction
from treadle.synthesis.alltoall.rate.flow_instance import FlowInstance
from treadle.synthesis.alltoall.rate.flow_symmetry import FlowSymmetry
from treadle.synthesis.alltoall.rate.spreading import even_in_orbits, spread_flow
from treadle.synthesis.core_values.flow_values import FlowProblem
from treadle.synthesis.parallel import core_threads

FINEST_GAP = 0.01
"""Smallest gap that is sought: a smaller one takes many times as many rounds."""

_SPREAD = 0.016
"""Excess length of a path, in mean distances, at which it gets 1/e of the data of a shortest path."""

_STEP, _MAX_STEP, _MIN_STEP = 0.15, 1.0, 0.001
_GROWTH, _SHRINKAGE = 1.2, 0.6
_MAX_CHANGE = 0.5
_SHARES = np.linspace(0, 1, 41)
"""Fractions of a new routing that are tried in the mixture."""

_MAX_ROUNDS = 300
_PERIOD, _PROGRESS, _MAX_IDLE = 10, 0.9, 3
"""Rounds of a period; fraction of the gap that a period may leave, else the spread is halved; periods without
progress after which the search ends."""

_LEAST_WEIGHT = 2e-3
_MOST_CELLS = 2**22
_VIOLATED = 1
_MOST_THREADS = 16


@dataclass(frozen=True, eq=False)
class PricedRoutings:
    """A mixture of routings, each of which can be recomputed.

    Parameters
    ----------
    weights : array of float64, shape (K,)
        Positive, 1 together.
    lengths : array of float64, shape (K, k)
        Of the links of the instance.
    spreads : array of float64, shape (K,)
    """

    weights: Float64Array
    lengths: Float64Array
    spreads: Float64Array

    def flows(self, instance: FlowInstance, symmetry: FlowSymmetry) -> Iterator[tuple[slice, Float64Array]]:
        """Flows of the representatives by block, recomputed, shape (rows, m)."""
        for part, problem in _blocks(instance, symmetry, max(instance.topology.n_nodes, len(instance.links))):
            rows = symmetry.representatives[part].astype(np.int64)
            mixed = np.zeros((len(rows), instance.topology.n_links))
            for weight, lengths, spread in zip(self.weights, self.lengths, self.spreads, strict=True):
                flow, _ = _route(instance, rows, problem, lengths, float(spread), by_source=True)
                mixed[:, instance.links] += weight * flow.reshape(len(rows), -1)
            yield part, mixed

    def by_source(self, instance: FlowInstance, symmetry: FlowSymmetry) -> Float64Array:
        """Flows of all ranks, shape (N, m), where they fit."""
        found = [flows for _, flows in self.flows(instance, symmetry)]
        return spread_flow(instance, symmetry, np.concatenate(found))


def priced_rate(
    instance: FlowInstance, symmetry: FlowSymmetry, *, gap: float, time_limit_s: float | None = None
) -> RateResult:
    """Compute both sides of the rate for any number of senders, in the memory of a few arrays of links.

    Parameters
    ----------
    instance : FlowInstance
    symmetry : FlowSymmetry
        One sender per orbit is routed, and loads are spread over orbits of links.
    gap : float
        1 - rate / upper at which to stop; at least `FINEST_GAP` is sought.
    time_limit_s : float, optional
        Wall-clock seconds after which to stop with what there is.

    Raises
    ------
    InfeasibleError
        If a demand has no path.

    Notes
    -----
    The lower side is that of a mixture whose routings are computed once more in the end, by sender: what they
    leave at each node is compared with the demands, and their loads are summed again. The upper one is exact,
    of lengths rounded to integers.
    """
    routings, lengths, is_late = _mixed_routings(instance, symmetry, max(gap, FINEST_GAP), time_limit_s)
    total, delivered = np.zeros(instance.topology.n_links), 1.0
    for part, flows in routings.flows(instance, symmetry):
        senders = instance.senders[symmetry.representatives[part]]
        fraction = delivered_fraction(instance.topology, instance.collective, senders, flows)
        delivered = min(delivered, fraction)
        total += symmetry.multiplicities[part] @ flows
    loads = even_in_orbits(instance, symmetry, total)
    stored_flow = partial(routings.by_source, instance, symmetry)
    return certified_orbits(
        instance, symmetry, loads, delivered, lengths, stored_flow, "priced routing", is_late=is_late
    )


def _mixed_routings(
    instance: FlowInstance, symmetry: FlowSymmetry, goal: float, time_limit_s: float | None
) -> tuple[PricedRoutings, Float64Array, bool]:
    """Return a mixture of routings, the best link lengths, and whether the gap `goal` was not reached.

    Capacities are 1 on average.
    """
    began = time.monotonic()
    capacity = instance.bandwidths / float(instance.bandwidths.mean())
    total_demand = float(instance.collective.pair_demands.totals[0].sum())
    lengths = best_lengths = 1 / capacity
    spread_share, spread = _SPREAD, _SPREAD * float(lengths.mean())
    steps, slope, mixed = np.full(len(capacity), _STEP), np.zeros(len(capacity)), np.zeros(len(capacity))
    tried: list[tuple[Float64Array, float]] = []
    weights, bound, idle, gap_before, is_late = np.zeros(0), 0.0, 0, 1.0, False
    for number in range(1, _MAX_ROUNDS + 1):
        loads, distance = _loads(instance, symmetry, lengths, spread)
        used = loads / capacity
        # Every routing loads all links together by at least the distance.
        if (proved := distance / float(capacity @ lengths)) > bound:
            bound, best_lengths = proved, lengths
        # The mixture takes in the fraction of the new routing that leaves its fullest link emptiest.
        fullest = [((1 - share) * mixed + share * used).max() for share in _SHARES]
        share = float(_SHARES[int(np.argmin(fullest))]) if tried else 1.0
        mixed = (1 - share) * mixed + share * used
        weights = np.append((1 - share) * weights, share)
        tried.append((lengths, spread))
        gap = max(0.0, 1 - bound / float(mixed.max()))
        if gap <= goal:
            break
        spread = spread_share * distance / total_demand
        weight = capacity * lengths
        # A routing alone oscillates, so the mixture's loads count as well.
        mean, mixed_mean = (float(weight @ one) / float(weight.sum()) for one in (used, mixed))
        slope, slope_before = (used / mean + mixed / mixed_mean) / 2 - 1, slope
        sign = slope * slope_before
        factor = np.where(sign > 0, _GROWTH, np.where(sign < 0, _SHRINKAGE, 1.0))
        steps = np.clip(steps * factor, _MIN_STEP, _MAX_STEP)
        grown = lengths * np.exp(np.clip(steps * slope, -_MAX_CHANGE, _MAX_CHANGE))
        lengths = grown * (len(grown) / float(capacity @ grown))
        if number % _PERIOD == 0:
            idle, gap_before = (idle + 1 if gap > _PROGRESS * gap_before else 0), gap
            if idle:  # near the optimal lengths only paths near the shortest help
                spread_share /= 2
        is_late = time_limit_s is not None and time.monotonic() - began > time_limit_s
        if is_late or idle == _MAX_IDLE:
            break
    kept = np.flatnonzero(weights >= _LEAST_WEIGHT)
    kept_lengths, kept_spreads = zip(*(tried[number] for number in kept), strict=True)
    routings = PricedRoutings(
        weights[kept] / weights[kept].sum(), np.array(kept_lengths), np.array(kept_spreads)
    )
    return routings, best_lengths, is_late or gap > goal


def _blocks(
    instance: FlowInstance, symmetry: FlowSymmetry, cells: int
) -> Iterator[tuple[slice, FlowProblem]]:
    """Yield the representatives in blocks, whose size depends on the cells of a row."""
    rows = symmetry.representatives
    step = max(1, _MOST_CELLS // cells)
    capacity = instance.bandwidths.astype(np.float64)
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        problem = FlowProblem(
            n_nodes=instance.topology.n_nodes,
            tail=instance.tails,
            head=instance.heads,
            capacity=capacity,
            source=instance.sources[rows[part]],
            demand=instance.demand_rows(rows[part]).astype(np.float64),
            weight=symmetry.multiplicities[part].astype(np.float64),
            orbit=symmetry.link_orbit,
        )
        yield part, problem


def _route(
    instance: FlowInstance,
    rows: Int64Array,
    problem: FlowProblem,
    lengths: Float64Array,
    spread: float,
    *,
    by_source: bool,
) -> tuple[Float64Array, float]:
    """Return the flow of each sender or the loads of the links, and the sum of demands times distances."""
    status, flow, distance, failed = run_core(
        "priced routing",
        lambda control: core.priced_routing(
            problem, lengths, spread, by_source, core_threads(_MOST_THREADS), control
        ),
    )
    if status == _VIOLATED:
        raise instance.unreachable(int(rows[failed[0]]), failed[1])
    return flow, distance


def _loads(
    instance: FlowInstance, symmetry: FlowSymmetry, lengths: Float64Array, spread: float
) -> tuple[Float64Array, float]:
    """Return the loads of the instance's links, even over orbits, and the sum of demands times distances."""
    loads, total = np.zeros(len(instance.links)), 0.0
    for part, problem in _blocks(instance, symmetry, instance.topology.n_nodes):
        rows = symmetry.representatives[part].astype(np.int64)
        flow, distance = _route(instance, rows, problem, lengths, spread, by_source=False)
        loads += flow
        total += distance
    of_orbit = np.bincount(symmetry.link_orbit, weights=loads, minlength=symmetry.n_orbits)
    return (of_orbit / symmetry.orbit_sizes)[symmetry.link_orbit], total
