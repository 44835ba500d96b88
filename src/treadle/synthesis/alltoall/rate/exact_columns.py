"""The all-to-all's linear program by columns of paths, solved in floats and then exactly.

Maximise F, where each commodity group gets at least F from its columns and each orbit of links holds what
crosses it. A group is a pair, or a source with all its targets; a column is a path, or a tree of paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

import numpy as np

from treadle.arrays import Int64Array, sums_of
from treadle.context import context
from treadle.math.columns import RestrictedMaster
from treadle.schedules.alltoall.alltoall_certificate import MAX_LENGTH
from treadle.synthesis.alltoall.rate.flow_instance import FlowInstance
from treadle.synthesis.alltoall.rate.flow_symmetry import FlowSymmetry
from treadle.synthesis.alltoall.rate.path_trees import PathTreeFinder, PathTrees

_FLOAT_LENGTH = 2**24
"""Longest length while the solution is in floats."""

_TOLERANCE = 1e-7
_START_ROUNDS = 6
_START_LENGTH = 1000
_SHARE = 0.1
_MAX_SCALE = 1000.0
_MAX_EXACT_ROUNDS = 40


@dataclass(frozen=True, eq=False)
class ColumnOptimum:
    """An exact optimum of the reduced problem.

    Parameters
    ----------
    rate : Fraction
        F, bytes/s per unit of demand.
    lengths : array of int64, shape (K,)
        Optimal length of each orbit of links.
    units : tuple of dicts, length R
        Per source, place of a link in the instance -> numerator of what crosses it at one unit of rate.
    denominator : int
    """

    rate: Fraction
    lengths: Int64Array
    units: tuple[dict[int, int], ...]
    denominator: int


@dataclass(frozen=True, eq=False)
class _Column:
    """One path or tree: its group, links of the instance, and what it carries over each."""

    group: int
    links: Int64Array
    amounts: Int64Array


class RateMaster:
    """The growing linear program of one instance under one symmetry.

    Parameters
    ----------
    instance : FlowInstance
    symmetry : FlowSymmetry
    by_pair : bool
        Groups are pairs (which converges in few rounds) or sources (which needs few rows).
    """

    def __init__(self, instance: FlowInstance, symmetry: FlowSymmetry, *, by_pair: bool) -> None:
        rows = symmetry.representatives.astype(np.int64)
        self._symmetry = symmetry
        self._finder = PathTreeFinder(instance, rows)
        self._demands = instance.demand_rows(rows)
        self._source, self._target = np.nonzero(self._demands)
        self._demand = self._demands[self._source, self._target]
        self._by_pair = by_pair
        self._group = np.arange(len(self._source)) if by_pair else self._source
        self._n_groups = int(self._group[-1]) + 1
        first = np.searchsorted(self._group, np.arange(self._n_groups))
        self._group_source = self._source[first]
        self._common = int(np.gcd.reduce(symmetry.orbit_bandwidths))
        # A row is divided by what its coefficients and its right-hand side have in common.
        self._divisors = np.gcd(symmetry.orbit_sizes, np.gcd.reduce(symmetry.multiplicities))
        room = symmetry.orbit_sizes // self._divisors
        self._room = [
            size * rate
            for size, rate in zip(
                room.tolist(), (symmetry.orbit_bandwidths // self._common).tolist(), strict=True
            )
        ]
        self._lp = RestrictedMaster(max(self._room))
        self._lp.add_column(1)
        for value in self._room:
            self._lp.add_row({}, value)
        for _ in range(self._n_groups):
            self._lp.add_row({0: 1})
        self._columns: list[_Column] = []

    @property
    def n_columns(self) -> int:
        """Paths or trees so far."""
        return len(self._columns)

    def solve(self, *, max_columns: int) -> ColumnOptimum | None:
        """The exact optimum; None if it needs too many columns or numbers too long.

        Raises
        ------
        TimeLimitError
            If the deadline passes.
        InfeasibleError
            If the solver fails.
        """
        self._start()
        while self.n_columns <= max_columns:
            context().report("columns", self.n_columns, max_columns)
            _, duals = self._lp.near_optimum()
            if not self._price(np.maximum(np.array(duals), 0)):
                break
        for _ in range(_MAX_EXACT_ROUNDS):
            if self.n_columns > max_columns:
                return None
            context().report("columns", self.n_columns, max_columns)
            optimum, new = self._exactly()
            if optimum is not None or not new:
                return optimum
            self._lp.near_optimum()
        return None

    def _start(self) -> None:
        """Shortest paths by hops; with groups of pairs also under lengths that shun what is loaded so far.

        Rounds of shortest paths are cheaper than rounds of the linear program, which would otherwise change
        the paths of a few pairs at a time.
        """
        symmetry = self._symmetry
        room = symmetry.orbit_sizes * symmetry.orbit_bandwidths.astype(np.float64)
        lengths = np.ones(symmetry.n_orbits, dtype=np.int64)
        total = np.zeros(symmetry.n_orbits)
        amount = (self._demand * symmetry.multiplicities[self._source]).astype(np.float64)
        for _ in range(_START_ROUNDS):
            trees = self._finder.trees(lengths[symmetry.link_orbit])
            self._add(trees)
            if not self._by_pair:
                break
            path, link = self._finder.hops(trees, (self._source, self._target))
            crossing = np.bincount(
                symmetry.link_orbit[link], weights=amount[path], minlength=symmetry.n_orbits
            )
            total += crossing / room
            scale = symmetry.orbit_bandwidths.max() / symmetry.orbit_bandwidths
            weight = (_SHARE + (total / total.max()) ** 3) * np.minimum(scale, _MAX_SCALE)
            lengths = np.rint(_START_LENGTH * weight).astype(np.int64)

    def _price(self, duals: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> int:
        """Add the columns that a solution in floats asks for; how many."""
        per_link = duals[: self._symmetry.n_orbits] / self._divisors
        if not per_link.max() > 0:
            return 0
        unit = per_link.max() / min(_FLOAT_LENGTH, self._finder.longest)
        lengths = np.rint(per_link / unit).astype(np.int64)
        trees = self._finder.trees(lengths[self._symmetry.link_orbit])
        costs = np.array([float(cost) for cost in self._costs(trees)]) * unit
        values = duals[self._symmetry.n_orbits :]
        # shorter than what its group is paid: such a column raises F
        wanted = costs < values - _TOLERANCE * values.max() / max(1, len(values))
        return self._add(trees, wanted.tolist())

    def _costs(self, trees: PathTrees) -> list[int]:
        """Length of the cheapest column of each group, in the unit of the lengths."""
        cost = self._demand * trees.distance[self._source, self._target]
        # in halves, whose sums fit 64 bits
        high, low = (sums_of(self._n_groups, self._group, half) for half in (cost >> 32, cost & 0xFFFFFFFF))
        totals = [(int(one) << 32) + int(other) for one, other in zip(high, low, strict=True)]
        times = self._symmetry.multiplicities[self._group_source].tolist()
        return [total * count for total, count in zip(totals, times, strict=True)]

    def _add(self, trees: PathTrees, wanted: Sequence[bool] | None = None) -> int:
        """Add the columns of some trees that are not there yet; how many."""
        if self._by_pair:
            group, link = self._finder.hops(trees, (self._source, self._target))
            amounts = self._demand[group]
        else:
            carried = self._finder.amounts(trees, self._demands)
            group, node = np.nonzero(carried * (trees.into >= 0))
            link, amounts = trees.into[group, node], carried[group, node]
        order = np.lexsort((link, group))
        group, link, amounts = group[order], link[order], amounts[order]
        starts = np.searchsorted(group, np.arange(self._n_groups + 1)).tolist()
        new = 0
        for number in range(self._n_groups):
            if wanted is None or wanted[number]:
                part = slice(starts[number], starts[number + 1])
                new += self._add_column(_Column(number, link[part], amounts[part]))
        return new

    def _add_column(self, column: _Column) -> bool:
        symmetry = self._symmetry
        loads = sums_of(symmetry.n_orbits, symmetry.link_orbit[column.links], column.amounts)
        if not self._lp.is_new((column.group, loads.tobytes())):
            return False
        times = int(symmetry.multiplicities[self._group_source[column.group]])
        used = np.flatnonzero(loads).tolist()
        coefficients = {k: times // int(self._divisors[k]) * int(loads[k]) for k in used}
        coefficients[symmetry.n_orbits + column.group] = -1
        self._lp.add_column(0, coefficients)
        self._columns.append(column)
        return True

    def _exactly(self) -> tuple[ColumnOptimum | None, int]:
        """The optimum if exact lengths prove it, and how many columns they ask for otherwise."""
        vertex = self._lp.exact_optimum()
        if vertex is None:
            return None, 0
        orbits = self._symmetry.n_orbits
        lengths = [
            value / int(part) for value, part in zip(vertex.dual[:orbits], self._divisors, strict=True)
        ]
        scale = lcm(*(length.denominator for length in lengths))
        numbers = [int(length * scale) for length in lengths]
        divisor = gcd(*numbers)
        if not divisor:
            return None, 0
        whole = [number // divisor for number in numbers]
        if max(whole) > min(MAX_LENGTH, self._finder.longest):
            return None, 0
        own = np.array(whole, dtype=np.int64)
        trees = self._finder.trees(own[self._symmetry.link_orbit])
        costs = self._costs(trees)
        needed = sum(costs)
        volume = sum(
            part * room * length
            for part, room, length in zip(self._divisors.tolist(), self._room, whole, strict=True)
        )
        # the lengths prove F <= volume / needed; if that is above F, some column is still missing
        if volume > needed * vertex.primal[0]:
            values = vertex.dual[orbits:]
            unit = Fraction(divisor, scale)
            return None, self._add(trees, [c * unit < v for c, v in zip(costs, values, strict=True)])
        assert volume == needed * vertex.primal[0]  # weak duality of the whole problem
        return self._optimum(vertex.primal, own), 0

    def _optimum(self, primal: Sequence[Fraction], lengths: Int64Array) -> ColumnOptimum:
        """Flows at one unit of rate: the columns by their shares of F, each group's adding up to 1."""
        rate = primal[0]
        shares = [value / rate for value in primal[1:]]
        totals = [Fraction(0)] * self._n_groups
        for column, share in zip(self._columns, shares, strict=True):
            totals[column.group] += share
        # a group may get more than F, which rows of at least F allow: cut down to just F
        shares = [share / totals[column.group] for column, share in zip(self._columns, shares, strict=True)]
        denominator = lcm(*(share.denominator for share in shares))
        units: tuple[dict[int, int], ...] = tuple({} for _ in range(self._symmetry.n_sources))
        for column, share in zip(self._columns, shares, strict=True):
            if share:
                times = int(share * denominator)
                flow = units[self._group_source[column.group]]
                for link, amount in zip(column.links.tolist(), column.amounts.tolist(), strict=True):
                    flow[link] = flow.get(link, 0) + times * amount
        return ColumnOptimum(rate * self._common, lengths, units, denominator)
