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

from treadle.arrays import Int64Array
from treadle.engine import core, run_core
from treadle.synthesis.alltoall.rate.certificate import RateResult, rounded_certificate
from treadle.synthesis.alltoall.rate.flow import delivered_fraction
from treadle.synthesis.alltoall.rate.flow_instance import FloatArray, FlowInstance
from treadle.synthesis.alltoall.rate.flow_symmetry import FlowSymmetry
from treadle.synthesis.alltoall.rate.spreading import even_in_orbits, spread_flow
from treadle.synthesis.core_values.flow_values import FlowProblem
from treadle.synthesis.parallel import core_threads

FINEST_GAP = 0.01
"""Gap that is sought at least: a finer one takes many times as many rounds."""

_SPREAD = 0.016
"""Excess of a path, as a share of the mean distance, at which it gets 1/e of what a shortest one gets."""

_STEP, _MAX_STEP, _MIN_STEP = 0.15, 1.0, 0.001
_GROWTH, _SHRINKAGE = 1.2, 0.6
_MAX_CHANGE = 0.5
_SHARES = np.linspace(0, 1, 41)
"""Parts of a new routing that are tried in the mixture."""

_MAX_ROUNDS = 300
_PERIOD, _PROGRESS, _MAX_IDLE = 10, 0.9, 3
"""Rounds of a period, the part of the gap that one should leave, and periods after which no more is expected;
where it leaves more the spread is halved."""

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

    weights: FloatArray
    lengths: FloatArray
    spreads: FloatArray

    def flows(self, instance: FlowInstance, symmetry: FlowSymmetry) -> Iterator[tuple[slice, FloatArray]]:
        """Flows of the representatives by block, recomputed, shape (rows, m)."""
        for part, problem in _blocks(instance, symmetry, max(instance.topology.n_nodes, len(instance.links))):
            rows = symmetry.representatives[part].astype(np.int64)
            mixed = np.zeros((len(rows), instance.topology.n_links))
            for weight, lengths, spread in zip(self.weights, self.lengths, self.spreads, strict=True):
                flow, _ = _route(instance, rows, problem, (lengths, float(spread), True))
                mixed[:, instance.links] += weight * flow.reshape(len(rows), -1)
            yield part, mixed

    def by_source(self, instance: FlowInstance, symmetry: FlowSymmetry) -> FloatArray:
        """Flows of all ranks, shape (N, m), where they fit."""
        found = [flows for _, flows in self.flows(instance, symmetry)]
        return spread_flow(instance, symmetry, np.concatenate(found))


def priced_rate(
    instance: FlowInstance, symmetry: FlowSymmetry, *, gap: float, time_limit_s: float | None = None
) -> RateResult:
    """Both sides of the rate, however many senders; memory is that of a few arrays of links.

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
    began, clock = time.process_time(), time.monotonic()
    search = _Search(instance, symmetry)
    is_late, idle, last = False, 0, 1.0
    for number in range(1, _MAX_ROUNDS + 1):
        search.advance()
        if search.gap <= max(gap, FINEST_GAP):
            break
        if number % _PERIOD == 0:
            idle = idle + 1 if search.gap > _PROGRESS * last else 0
            last = search.gap
            if idle:
                search.halve_spread()
        is_late = time_limit_s is not None and time.monotonic() - clock > time_limit_s
        if is_late or idle == _MAX_IDLE:
            break
    is_late = is_late or search.gap > max(gap, FINEST_GAP)
    routings = search.mixture()
    total, served = np.zeros(instance.topology.n_links), 1.0
    for part, flows in routings.flows(instance, symmetry):
        senders = instance.senders[symmetry.representatives[part]]
        served = min(served, delivered_fraction(instance.topology, instance.collective, senders, flows))
        total += symmetry.multiplicities[part] @ flows
    loads = even_in_orbits(instance, symmetry, total)
    lengths = np.zeros(instance.topology.n_links)
    lengths[instance.links] = search.best_lengths
    witness = rounded_certificate(lengths)
    upper = witness.pair_rate_bound(instance.topology, instance.collective, automorphisms=symmetry.node_maps)
    rate = served / float((loads / instance.topology.bandwidths).max())
    return RateResult(
        topology=instance.topology,
        collective=instance.collective,
        rate=min(rate, float(upper)),
        upper=upper,
        exact=None,
        loads=loads,
        stored_flow=partial(routings.by_source, instance, symmetry),
        witness=witness,
        method="priced routing",
        seconds=time.process_time() - began,
        is_late=is_late,
    )


class _Search:
    """Lengths, the mixture so far, and the best of both sides; capacities are 1 on average."""

    def __init__(self, instance: FlowInstance, symmetry: FlowSymmetry) -> None:
        self._instance, self._symmetry = instance, symmetry
        self._capacity = instance.bandwidths / float(instance.bandwidths.mean())
        self._lengths = 1 / self._capacity
        self._spread_share = _SPREAD
        self._spread = _SPREAD * float(self._lengths.mean())
        self._steps = np.full(len(instance.links), _STEP)
        self._slope: FloatArray = np.zeros(len(instance.links))
        self._tried: list[tuple[FloatArray, float]] = []
        self._weights = np.zeros(0)
        self._mixed: FloatArray = np.zeros(len(instance.links))
        self._least_load, self._bound = np.inf, 0.0
        self.best_lengths = self._lengths

    @property
    def gap(self) -> float:
        """Between the least load of the fullest link so far and what lengths prove of it."""
        return max(0.0, 1 - self._bound / self._least_load)

    def advance(self) -> None:
        """Route once, mix, and change the lengths."""
        lengths, capacity = self._lengths, self._capacity
        loads, distance = _loads(self._instance, self._symmetry, lengths, self._spread)
        used = loads / capacity
        # every routing loads all links together by at least the distance
        bound = distance / float(capacity @ lengths)
        if bound > self._bound:
            self._bound, self.best_lengths = bound, lengths
        # that part of the routing is taken into the mixture which makes its fullest link emptiest
        fullest = [((1 - share) * self._mixed + share * used).max() for share in _SHARES]
        share = float(_SHARES[int(np.argmin(fullest))]) if self._tried else 1.0
        self._mixed = (1 - share) * self._mixed + share * used
        self._weights = np.append((1 - share) * self._weights, share)
        self._least_load = float(self._mixed.max())
        self._tried.append((lengths, self._spread))
        self._spread = self._spread_share * distance / self._total_demand
        weight = capacity * lengths
        # the mixture as well as this routing, which goes to and fro
        mean, mixed_mean = (float(weight @ one) / float(weight.sum()) for one in (used, self._mixed))
        slope = (used / mean + self._mixed / mixed_mean) / 2 - 1
        turn = slope * self._slope
        factor = np.where(turn > 0, _GROWTH, np.where(turn < 0, _SHRINKAGE, 1.0))
        self._steps = np.clip(self._steps * factor, _MIN_STEP, _MAX_STEP)
        self._slope = slope
        grown = lengths * np.exp(np.clip(self._steps * slope, -_MAX_CHANGE, _MAX_CHANGE))
        self._lengths = grown * (len(grown) / float(capacity @ grown))

    def halve_spread(self) -> None:
        """Go on with paths that are nearer to the shortest, where lengths are near their optimum."""
        self._spread_share /= 2

    def mixture(self) -> PricedRoutings:
        """The routings that count in the mixture."""
        kept = np.flatnonzero(self._weights >= _LEAST_WEIGHT)
        weights = self._weights[kept] / self._weights[kept].sum()
        lengths = np.array([self._tried[number][0] for number in kept])
        return PricedRoutings(weights, lengths, np.array([self._tried[number][1] for number in kept]))

    @property
    def _total_demand(self) -> float:
        return float(self._instance.collective.pair_demands.totals[0].sum())


def _blocks(
    instance: FlowInstance, symmetry: FlowSymmetry, cells: int
) -> Iterator[tuple[slice, FlowProblem]]:
    """Representatives in blocks, by how many cells a row has."""
    rows = symmetry.representatives
    step = max(1, _MOST_CELLS // cells)
    capacity = instance.bandwidths.astype(np.float64)
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        yield (
            part,
            FlowProblem(
                n_nodes=instance.topology.n_nodes,
                tail=instance.tails,
                head=instance.heads,
                capacity=capacity,
                source=instance.sources[rows[part]],
                demand=instance.demand_rows(rows[part]).astype(np.float64),
                weight=symmetry.multiplicities[part].astype(np.float64),
                orbit=symmetry.link_orbit,
            ),
        )


def _route(
    instance: FlowInstance, rows: Int64Array, problem: FlowProblem, how: tuple[FloatArray, float, bool]
) -> tuple[FloatArray, float]:
    lengths, spread, by_source = how
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
    instance: FlowInstance, symmetry: FlowSymmetry, lengths: FloatArray, spread: float
) -> tuple[FloatArray, float]:
    """Loads of the links of the instance, even over orbits, and the sum of demands times distances."""
    loads, total = np.zeros(len(instance.links)), 0.0
    for part, problem in _blocks(instance, symmetry, instance.topology.n_nodes):
        rows = symmetry.representatives[part].astype(np.int64)
        flow, distance = _route(instance, rows, problem, (lengths, spread, False))
        loads += flow
        total += distance
    of_orbit = np.bincount(symmetry.link_orbit, weights=loads, minlength=symmetry.n_orbits)
    return (of_orbit / symmetry.orbit_sizes)[symmetry.link_orbit], total
