"""Integral trees: the best rate of a total number of unit trees, with integral capacities of both families.

With unit trees of rate 1/u a link of bandwidth b holds floor(u b) of them, in-trees and out-trees together.
For a given u the trees are integral capacities within these floors, balanced at switches, and integral
numbers of roots that every cut allows: an integer program whose relaxation is the linear program (B.5) of the
floors. Only scales u at which a floor grows need to be looked at. A dual solution of one scale, priced at the
floors of another, bounds the number of trees there, so the linear program is solved for few scales and the
integer program mostly for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from treadle.arrays import Int64Array, distinct, ranges_of
from treadle.context import context
from treadle.synthesis.trees.allreduce.capacities import IntegralAllocation
from treadle.synthesis.trees.allreduce.integral_program import IntegralTreeProgram
from treadle.synthesis.trees.allreduce.pair_network import PairNetwork
from treadle.topologies.topology import Topology

MOST_TREES = 2**16
"""Numbers of unit trees beyond this are not looked for."""

_MOST_SCALES = 2**18
_MOST_FLOORS = 2**22
_MOST_PROGRAMS = 2**9
_SMALL = 2**12
"""Capacity that is not cut off: solvers can separate such numbers."""

_TOLERANCE = 1e-6
_EQUAL = 1e-12
"""Rates that differ by less are the same number, rounded."""

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Goal:
    """Acceptable numbers of unit trees, all roots together.

    Parameters
    ----------
    numbers : sequence of int
        Rising.
    least : Fraction
        Rate that is to be exceeded, in units of `PairNetwork.unit`.
    is_fewest : bool
        The fewest trees that exceed it, not the best rate.
    """

    numbers: Sequence[int]
    least: Fraction = Fraction(0)
    is_fewest: bool = False


@dataclass(frozen=True)
class IntegralTrees:
    """Integral capacities that hold a number of in-trees and out-trees.

    Parameters
    ----------
    rate : Fraction
        Trees times the rate of each, in units of `PairNetwork.unit`.
    shares : IntegralAllocation
        Within the floors of that rate.
    """

    rate: Fraction
    shares: IntegralAllocation


def find_integral_trees(
    topology: Topology, network: PairNetwork, goal: Goal, *, optimum: Fraction, n_roots: int | None = None
) -> IntegralTrees | None:
    """Return integral numbers of trees that reach a goal.

    Parameters
    ----------
    topology : Topology
    network : PairNetwork
        Of the fabric; without capable switches.
    goal : Goal
    optimum : Fraction
        The rate of as many trees as one likes, in units of `PairNetwork.unit`.
    n_roots : int, optional
        Number of first ranks that may be roots.

    Returns
    -------
    IntegralTrees or None
        None if the goal is out of reach, or nothing was found.
    """
    numbers = np.array([number for number in goal.numbers if number <= MOST_TREES], dtype=np.int64)
    if not len(numbers) or not optimum:
        return None
    ladder = _Ladder.of(topology, network, int(numbers[-1]), optimum)
    if not len(ladder.scales):
        return None
    program = IntegralTreeProgram(network, n_roots)
    search = _ScaleSearch(topology, program, ladder, numbers, goal)
    for step in range(_MOST_PROGRAMS):
        context().report("whole trees", step, _MOST_PROGRAMS)
        choice = search.choose()
        if choice is None:
            return None
        trees, position = choice
        if search.is_possible(trees, position):
            found = program.integral(trees)
            if found is not None:
                return _laid_out(topology, network, ladder.exact(position), found)
            search.limit(position, trees - 1)
    return None


@dataclass(frozen=True)
class _Ladder:
    """Scales u = numerator / width at which floor(u b) grows for some link, rising.

    Parameters
    ----------
    widths : array of int64, shape (d,)
        Bandwidths of links in units of `PairNetwork.unit`, distinct.
    numerators, denominators : arrays of int64, shape (n,)
    scales : array of float, shape (n,)
    """

    widths: Int64Array
    numerators: Int64Array
    denominators: Int64Array
    scales: _Floats

    @classmethod
    def of(cls, topology: Topology, network: PairNetwork, most: int, optimum: Fraction) -> _Ladder:
        """Return scales up to over twice what `most` trees need at the optimum; fewer if they are too
        many."""
        links = [e for members in network.links for e in members]
        widths = distinct(topology.bandwidths[links]) // network.unit
        # wider links hold two trees per rank or more at any relevant scale
        binding = widths[widths <= 2 * len(network.ranks) * float(optimum)]
        top = (2 * most + 64) / float(optimum)
        room = min(_MOST_SCALES, _MOST_FLOORS // len(widths))
        top = min(top, room / max(1.0, float(binding.sum())))
        if top * float(widths.max()) * float(binding.max(initial=1)) >= 2.0**62:
            binding = binding[:0]
        counts = np.floor(top * binding).astype(np.int64)
        owner, numerators = ranges_of(np.ones_like(counts), counts)
        scales, first = np.unique(numerators / binding[owner], return_index=True)
        return cls(widths, numerators[first], binding[owner[first]], scales)

    def floors(self) -> _Floats:
        """Return floor(u b) by scale and width, shape (n, d)."""
        return np.stack([self.numerators * width // self.denominators for width in self.widths], axis=1) * 1.0

    def exact(self, position: int) -> Fraction:
        """Return the scale at a position."""
        return Fraction(int(self.numerators[position]), int(self.denominators[position]))


class _ScaleSearch:
    """Known numbers of trees at every scale, and the next scale to examine."""

    def __init__(
        self,
        topology: Topology,
        program: IntegralTreeProgram,
        ladder: _Ladder,
        numbers: Int64Array,
        goal: Goal,
    ) -> None:
        self._program, self._ladder, self._numbers, self._goal = program, ladder, numbers, goal
        self._floors = ladder.floors()
        network = program.network
        # no tree crosses a link more often than it has edges, and larger capacities make the solver inexact
        self._enough = max(_SMALL, 2 * int(numbers[-1]) * len(network.ranks))
        self._members = [
            np.searchsorted(ladder.widths, topology.bandwidths[list(members)] // network.unit)
            for members in network.links
        ]
        self._most = np.full(len(ladder.scales), np.inf)
        self._relaxed: dict[int, float] = {}

    def choose(self) -> tuple[int, int] | None:
        """Return the most promising number of trees, and the position of the least scale that may hold it."""
        places = np.searchsorted(self._most, self._numbers)
        within = places < len(self._most)
        rates = np.zeros(len(self._numbers))
        rates[within] = self._numbers[within] / self._ladder.scales[places[within]]
        good = np.flatnonzero(rates > float(self._goal.least) * (1 + _EQUAL))
        if not len(good):
            return None
        taken = good[0]
        if not self._goal.is_fewest:
            taken = good[rates[good] >= rates[good].max() * (1 - _EQUAL)][0]
        return int(self._numbers[taken]), int(places[taken])

    def is_possible(self, trees: int, position: int) -> bool:
        """Whether the linear program allows this many trees at that scale; its result is stored."""
        room = [min(int(self._floors[position, members].sum()), self._enough) for members in self._members]
        self._program.set_free_capacity(room)
        if position not in self._relaxed:
            value, prices = self._program.relaxed()
            self._relaxed[position] = value
            weights = np.zeros(len(self._ladder.widths))
            for members, price in zip(self._members, prices, strict=True):
                np.add.at(weights, members, price)
            # prices of this scale are feasible duals of every other: they bound its number of trees as well
            bound = np.floor(self._floors @ weights + _TOLERANCE * (1 + value))
            self._most = np.minimum(self._most, bound)
            self.limit(position, float(np.floor(value + _TOLERANCE * (1 + value))))
        return self._relaxed[position] >= trees * (1 - _TOLERANCE)

    def limit(self, position: int, most: float) -> None:
        """Record that the scale, and so all below, hold at most this number of trees."""
        self._most[: position + 1] = np.minimum(self._most[: position + 1], most)


def _laid_out(
    topology: Topology, network: PairNetwork, scale: Fraction, found: tuple[list[int], list[int], list[int]]
) -> IntegralTrees:
    """Divide the capacities of pairs among their parallel links, one after the other."""
    roots, broadcast, reduce = found
    shares = [0] * topology.n_links, [0] * topology.n_links
    for members, *parts in zip(network.links, broadcast, reduce, strict=True):
        room = {e: int(int(topology.bandwidths[e]) // network.unit * scale) for e in members}
        for share, part in zip(shares, parts, strict=True):
            for e in members:
                share[e] = min(part, room[e])
                room[e] -= share[e]
                part -= share[e]
            assert not part, "the program loads a pair beyond its floors"
    return IntegralTrees(sum(roots) / scale, IntegralAllocation(roots, *shares))
