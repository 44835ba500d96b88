"""A search for orders of the links, layer by layer, over which a routing comes near the optimal rate."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Float64Array, Int32Array
from treadle.context import context
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.routes.link_orders import LayeredPaths
from treadle.topologies.topology import Topology

_VIEWS = 8
"""Vectors of link lengths at which climbing paths are to be short."""

_SHAKE = 0.6
"""Standard deviation of a view's logarithm about the mean lengths."""

_STEPS_PER_LINK = 12
"""Moves per round and link."""

_HOT, _COLD = 1e-4, 1e-5
"""Temperatures of the first and the last round, in parts of the demands' distances."""

_NEWEST = 0.05
"""Part of the newest congestion in the mean lengths."""

_FEWEST_ROUNDS, _NO_DETOUR = 6, 1e-5
"""A search ends early, after this many rounds, when the detours are less than this part of all distances."""

_SPREADS, _STEEPNESS = 100, 60.0
"""Rounds of spreading per round of search, and the exponent of a link's length in its relative load."""


class OrderSearch:
    """Orders that get better round by round; deterministic for a seed.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    orders : array of int, shape (L, m)
        To begin with.
    lengths : array of float64, shape (m,)
        That prove the rate without layers, bandwidths times lengths adding up to 1.
    seed : int

    Attributes
    ----------
    orders : array of int32, shape (L, m)

    Notes
    -----
    Any lengths l prove that no routing over the orders exceeds sum(b l) / sum(w climb_l), so good orders keep
    climbing paths nearly as short as all paths, at every l that matters. A search at one l spoils others; so
    it runs at several, drawn at random about a mean that follows the congestion which the orders so far bring
    about, one of them replaced in every round. Moves cost a pass over one layer's links for each l.
    """

    def __init__(
        self,
        topology: Topology,
        collective: Collective,
        orders: Int32Array,
        lengths: Float64Array,
        seed: int,
    ) -> None:
        self._topology, self._collective = topology, collective
        self._bandwidth = topology.bandwidths / topology.bandwidths.mean()
        self._rng = np.random.default_rng(seed)
        self.orders = np.ascontiguousarray(orders, dtype=np.int32)
        self._mean = 0.5 * self._scaled(1 / self._bandwidth) + 0.5 * self._scaled(lengths)
        self._views = np.array([self._view() for _ in range(_VIEWS)])

    def restart(self, orders: Int32Array, lengths: Float64Array) -> None:
        """Go on from other orders, whose rate these lengths limit."""
        self.orders = np.ascontiguousarray(orders, dtype=np.int32)
        self._learn(lengths)

    def run(self, rounds: int, *, heat: float = 1.0, effort: int = 1) -> None:
        """Cool down once.

        Parameters
        ----------
        rounds : int
        heat : float
            Of the first round, in units of the usual one.
        effort : int
            Multiplies the moves of each round.

        Raises
        ------
        TimeLimitError
            If the deadline passes.
        """
        steps = effort * _STEPS_PER_LINK * self._topology.n_links
        heats = np.geomspace(max(_HOT * heat, _COLD), _COLD, rounds + 1)
        for number in range(rounds):
            context().report("link orders", number, rounds)
            self.orders, cost = self._paths().annealed(
                self._views,
                steps=steps,
                hot=float(heats[number]),
                cold=float(heats[number + 1]),
                seed=int(self._rng.integers(2**62)),
            )
            self._learn(self._congested())
            if number + 1 >= _FEWEST_ROUNDS and cost < 1 + _NO_DETOUR:
                break

    def _paths(self) -> LayeredPaths:
        return LayeredPaths(self._topology, self._collective, self.orders)

    def _scaled(self, lengths: Float64Array) -> Float64Array:
        """Bandwidths times lengths add up to the number of links, and none is quite 0."""
        positive = lengths + 1e-6 * float(lengths.mean())
        return np.asarray(positive * (len(positive) / float(self._bandwidth @ positive)), dtype=np.float64)

    def _view(self) -> Float64Array:
        return self._scaled(self._mean * np.exp(_SHAKE * self._rng.standard_normal(len(self._mean))))

    def _learn(self, lengths: Float64Array) -> None:
        self._mean = (1 - _NEWEST) * self._mean + _NEWEST * self._scaled(lengths)
        self._views = np.vstack([self._views[1:], self._view()])

    def _congested(self) -> Float64Array:
        """Lengths that grow steeply with the load when all pairs keep to short climbing paths."""
        paths, lengths = self._paths(), self._mean
        load, total = np.zeros(len(lengths)), np.zeros(len(lengths))
        for number in range(_SPREADS):
            load += (paths.loads(lengths) / self._bandwidth - load) * 2 / (number + 2)
            steepness = _STEEPNESS * (0.25 + 0.75 * number / _SPREADS)
            lengths = self._scaled(np.exp(steepness * (load / load.max() - 1)) / self._bandwidth)
            if 2 * number >= _SPREADS:
                total += lengths
        return total
