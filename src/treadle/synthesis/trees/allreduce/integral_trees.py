"""Integral trees: the best rate of a total number of unit trees, with integral capacities of both families.

With unit trees of rate 1/u a link of bandwidth b holds floor(u b) of them, in-trees and out-trees together.
For a given u the trees are integral capacities within these floors, balanced at switches, and integral
numbers of roots that every cut allows: an integer program whose relaxation is the linear program (B.5) of the
floors. Only scales u at which a floor grows need to be looked at. A dual solution of one scale, priced at the
floors of another, bounds the number of trees there, so the linear program is solved for few scales and the
integer program mostly for one. Edge splitting and Edmonds' theorem need only integers and balance, and so
these capacities hold integral trees. Source: docs/how-it-works/allreduce-and-groups.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf

import numpy as np
import numpy.typing as npt

from treadle.arrays import Int64Array, distinct, ranges_of
from treadle.context import context
from treadle.math.columns import IntegerProgram
from treadle.synthesis.trees.allreduce.capacities import IntegralAllocation
from treadle.synthesis.trees.allreduce.cutting_planes import (
    CutFamily,
    add_first_cuts,
    balance_of,
    capacity_rows,
    separate,
)
from treadle.synthesis.trees.allreduce.pair_network import PairNetwork
from treadle.synthesis.trees.allreduce.separation import Number
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

_VIOLATION = 1e-7
"""Smallest violation of a cut by a solution of the relaxation that counts."""

_MOST_CUTS = 2**9
"""Rounds of cuts for one integer solution."""


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


class IntegralTreeProgram:
    """Maximize the roots x(Vc), where cuts of c_BC and c_RE hold them and c_BC + c_RE fit every pair.

    On a symmetric network c_RE is the mirror image of c_BC, as in `solve_two_family_lp`: between two nodes
    that is an orientation of undirected trees. Violated cuts stay for all free capacities. Among integral
    solutions an even one is searched for, with c_BC as near to c_RE as possible on every pair: trees packed
    into vertices of the linear program are twice as high.

    Parameters
    ----------
    network : PairNetwork
        Without capable switches.
    n_roots : int, optional
        Number of first ranks that may be roots.
    """

    def __init__(self, network: PairNetwork, n_roots: int | None = None) -> None:
        self.network, program = network, IntegerProgram()
        self._program = program
        self._roots = {rank: program.column(1) for rank in network.ranks[:n_roots]}
        self._is_mirrored = network.is_symmetric
        self._families = [
            CutFamily(leaving, tuple(program.column() for _ in range(network.n_pairs)))
            for leaving in ((True,) if self._is_mirrored else (True, False))
        ]
        self._total_row = program.add_row(dict.fromkeys(self._roots.values(), 1))
        self._even: list[int] = []

        def add_pair(_: int, *columns: int) -> int:
            row = program.add_row(dict.fromkeys(columns, 1), upper=0)
            # an even solution maximizes the sum of these, the lower of each two
            self._even.append(program.column())
            for column in columns:
                program.add_row({self._even[-1]: 1, column: -1}, upper=0)
            return row

        self._pair_rows = capacity_rows(network, self._families, add_pair)
        for family in self._families:
            for row in balance_of(network, family.columns, frozenset()).values():
                program.add_row(row, 0, lower=0)
        self._free = [0] * network.n_pairs
        add_first_cuts(program, network, self._families, self._roots)

    def set_free_capacity(self, free: Sequence[int]) -> None:
        """Set the number of trees that each pair may hold, in-trees and out-trees together."""
        self._free = list(free)
        least = dict.fromkeys(self._pair_rows, max(free))
        for row, value in zip(self._pair_rows, free, strict=True):
            least[row] = min(least[row], value)
        for row, value in least.items():
            self._program.solver.changeRowBounds(row, -inf, value)

    def relaxed(self) -> tuple[float, list[float]]:
        """Return the rate of the linear relaxation, and a price per pair: all capacity has the price of the
        rate."""
        self._aim()
        values, duals = self._fractional()
        share = 0.5 if self._is_mirrored else 1.0  # mirrored, two pairs have one row
        prices = [share * max(0.0, duals[row]) for row in self._pair_rows]
        return sum(values[column] for column in self._roots.values()), prices

    def integral(self, trees: int) -> tuple[list[int], list[int], list[int]] | None:
        """Return roots per rank, c_BC and c_RE per pair of the integral trees; None if none were found.

        Roots are spread over the ranks as evenly as they can be.
        """
        # even roots first, as trees of few roots are higher; more trees of a root where cuts require it
        most = ceil(trees / len(self._roots))
        while True:
            self._aim(most, trees)
            values, _ = self._fractional()
            if sum(values[column] for column in self._roots.values()) >= trees - 0.5:
                self._aim(most, trees, is_even=True)
                for _ in range(_MOST_CUTS):
                    found = self._program.integers()
                    if found is None:
                        break
                    if not self._separate(found, 0):
                        if (solution := self._read(found)) is not None:
                            return solution
                        break
            if most >= trees:
                return None
            most = min(2 * most, trees)

    def _aim(self, most: float = inf, total: float = inf, *, is_even: bool = False) -> None:
        """Limit the trees of a root and of all; maximize their number, or evenness at exactly that number."""
        solver = self._program.solver
        for column in self._roots.values():
            solver.changeColBounds(column, 0, most)
            solver.changeColCost(column, int(not is_even))
        for column in self._even:
            solver.changeColCost(column, int(is_even))
        solver.changeRowBounds(self._total_row, total if is_even else -inf, total)

    def _fractional(self) -> tuple[list[float], list[float]]:
        while True:
            found = self._program.relaxed()
            assert found is not None, "nothing at all is a solution"
            if not self._separate(found[0], _VIOLATION):
                return found

    def _separate(self, values: Sequence[Number], tolerance: Number) -> int:
        """Add cuts that the values violate; return how many are new."""
        return separate(self._program, self.network, self._families, self._roots, values, tolerance)

    def _read(self, values: Sequence[int]) -> tuple[list[int], list[int], list[int]] | None:
        """Return the solution; None where the solver's rounding violates a row."""
        network = self.network
        roots = [values[self._roots[rank]] if rank in self._roots else 0 for rank in network.ranks]
        shares = [[values[column] for column in family.columns] for family in self._families]
        if self._is_mirrored:
            shares.append([shares[0][opposite] for opposite in network.reverse])
        is_within = all(b + r <= free for b, r, free in zip(*shares, self._free, strict=True))
        is_within &= all(network.unbalanced(share) <= {*network.ranks} for share in shares)
        return (roots, shares[0], shares[1]) if is_within else None
