"""The all-to-all's linear program by columns of paths, solved in floats and then exactly.

Maximise F such that each group gets at least F from its columns, and no orbit of links is overloaded. A
group is a pair, or a source with all its targets; a column is a path, or a tree of paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import gcd, lcm

import numpy as np

from treadle.arrays import Float64Array, Int64Array, sums_of
from treadle.context import context
from treadle.math.columns import RestrictedMaster
from treadle.schedules.alltoall.alltoall_certificate import MAX_LENGTH, FlowDualCertificate
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
class ExactRate:
    """An exact optimum with both of its certificates.

    Parameters
    ----------
    rate : Fraction
        F, bytes/s per unit of demand.
    certificate : FlowDualCertificate
        Lengths, equal on all links of an orbit, that bound F by exactly this rate.
    symmetry : FlowSymmetry
        The senders that represent all, and the orbits of links.
    units : tuple of mappings, length R
        Per representative: link -> load at one unit of rate, times `denominator`. Each source's flow delivers
        its demands; the loads of all, spread over the orbits of links, are at most 1 / F.
    denominator : int
    """

    rate: Fraction
    certificate: FlowDualCertificate
    symmetry: FlowSymmetry
    units: tuple[dict[int, int], ...]
    denominator: int


class RateMaster:
    """The restricted master program of an instance under a symmetry.

    Parameters
    ----------
    instance : FlowInstance
    symmetry : FlowSymmetry
    by_pair : bool
        Groups are pairs (which converges in few rounds) or sources (which needs few rows).
    """

    def __init__(self, instance: FlowInstance, symmetry: FlowSymmetry, *, by_pair: bool) -> None:
        rows = symmetry.representatives.astype(np.int64)
        self._instance, self._symmetry = instance, symmetry
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
        bandwidths = (symmetry.orbit_bandwidths // self._common).astype(object)  # products exceed 64 bits
        self._capacity: list[int] = (symmetry.orbit_sizes // self._divisors * bandwidths).tolist()
        self._lp = RestrictedMaster(max(self._capacity))
        self._lp.add_column(1)
        for value in self._capacity:
            self._lp.add_row({}, value)
        for _ in range(self._n_groups):
            self._lp.add_row({0: 1})
        self._columns: list[tuple[int, Int64Array, Int64Array]] = []
        """Group of each path or tree, its links in the instance, and its load on each."""

    def solve(self, *, max_columns: int) -> ExactRate | None:
        """Return the exact optimum; None if it needs too many columns or too long numbers.

        Raises
        ------
        TimeLimitError
            If the deadline passes.
        InfeasibleError
            If the solver fails.
        """
        self._start()
        while len(self._columns) <= max_columns:
            context().report("columns", len(self._columns), max_columns)
            _, duals = self._lp.near_optimum()
            if not self._price(np.maximum(np.array(duals), 0)):
                break
        for _ in range(_MAX_EXACT_ROUNDS):
            if len(self._columns) > max_columns:
                return None
            context().report("columns", len(self._columns), max_columns)
            optimum, new = self._exactly()
            if optimum is not None or not new:
                return optimum
            self._lp.near_optimum()
        return None

    def _start(self) -> None:
        """Add shortest paths by hops; for groups of pairs also under lengths that grow with the loads so far.

        Rounds of shortest paths are cheaper than rounds of the linear program, which changes the paths of a
        few pairs at a time.
        """
        symmetry = self._symmetry
        capacity = symmetry.orbit_sizes * symmetry.orbit_bandwidths.astype(np.float64)
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
            total += crossing / capacity
            scale = symmetry.orbit_bandwidths.max() / symmetry.orbit_bandwidths
            weight = (_SHARE + (total / total.max()) ** 3) * np.minimum(scale, _MAX_SCALE)
            lengths = np.rint(_START_LENGTH * weight).astype(np.int64)

    def _price(self, duals: Float64Array) -> int:
        """Add the columns of negative reduced cost in a float solution; return their number."""
        per_link = duals[: self._symmetry.n_orbits] / self._divisors
        if not per_link.max() > 0:
            return 0
        unit = per_link.max() / min(_FLOAT_LENGTH, self._finder.longest)
        lengths = np.rint(per_link / unit).astype(np.int64)
        trees = self._finder.trees(lengths[self._symmetry.link_orbit])
        costs = np.array([float(cost) for cost in self._costs(trees)]) * unit
        values = duals[self._symmetry.n_orbits :]
        # A column shorter than its group's dual value raises F.
        wanted = costs < values - _TOLERANCE * values.max() / max(1, len(values))
        return self._add(trees, wanted.tolist())

    def _costs(self, trees: PathTrees) -> list[int]:
        """Return the length of the cheapest column of each group, in the unit of the lengths."""
        cost = self._demand * trees.distance[self._source, self._target]
        # Sums of halves fit 64 bits.
        high, low = (sums_of(self._n_groups, self._group, half) for half in (cost >> 32, cost & 0xFFFFFFFF))
        totals = [(int(one) << 32) + int(other) for one, other in zip(high, low, strict=True)]
        times = self._symmetry.multiplicities[self._group_source].tolist()
        return [total * count for total, count in zip(totals, times, strict=True)]

    def _add(self, trees: PathTrees, wanted: Sequence[bool] | None = None) -> int:
        """Add the new ones among the columns of these trees; return their number."""
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
        return sum(
            self._add_column(number, link[low:high], amounts[low:high])
            for number, (low, high) in enumerate(pairwise(starts))
            if wanted is None or wanted[number]
        )

    def _add_column(self, group: int, links: Int64Array, amounts: Int64Array) -> bool:
        """Add a path or tree, unless another of its group loads the orbits equally."""
        symmetry = self._symmetry
        loads = sums_of(symmetry.n_orbits, symmetry.link_orbit[links], amounts)
        if not self._lp.is_new((group, loads.tobytes())):
            return False
        times = int(symmetry.multiplicities[self._group_source[group]])
        used = np.flatnonzero(loads).tolist()
        coefficients = {k: times // int(self._divisors[k]) * int(loads[k]) for k in used}
        self._lp.add_column(0, coefficients | {symmetry.n_orbits + group: -1})
        self._columns.append((group, links, amounts))
        return True

    def _exactly(self) -> tuple[ExactRate | None, int]:
        """Return the optimum if exact lengths prove it, else the number of columns added by them."""
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
            part * capacity * length
            for part, capacity, length in zip(self._divisors.tolist(), self._capacity, whole, strict=True)
        )
        # The lengths prove F <= volume / needed. If that is above F, some column is still missing.
        if volume > needed * vertex.primal[0]:
            values = vertex.dual[orbits:]
            unit = Fraction(divisor, scale)
            return None, self._add(trees, [c * unit < v for c, v in zip(costs, values, strict=True)])
        assert volume == needed * vertex.primal[0]  # weak duality of the whole problem
        return self._optimum(vertex.primal, own), 0

    def _optimum(self, primal: Sequence[Fraction], lengths: Int64Array) -> ExactRate:
        """Return flows at one unit of rate, in which the shares of each group's columns add up to 1."""
        rate, symmetry = primal[0], self._symmetry
        totals = [Fraction(0)] * self._n_groups
        for (group, _, _), value in zip(self._columns, primal[1:], strict=True):
            totals[group] += value
        # A group may get more than F, since its row says "at least": scale it to F.
        shares = [
            value / totals[group] for (group, _, _), value in zip(self._columns, primal[1:], strict=True)
        ]
        denominator = lcm(*(share.denominator for share in shares))
        units: tuple[dict[int, int], ...] = tuple({} for _ in range(symmetry.n_sources))
        for (group, links, amounts), share in zip(self._columns, shares, strict=True):
            times, flow = int(share * denominator), units[self._group_source[group]]
            for link, amount in zip(links.tolist(), amounts.tolist(), strict=True) if times else ():
                flow[link] = flow.get(link, 0) + times * amount
        numbers = self._instance.links.tolist()
        by_link = np.zeros(self._instance.topology.n_links, dtype=np.int64)
        by_link[numbers] = lengths[symmetry.link_orbit]
        return ExactRate(
            rate * self._common,
            FlowDualCertificate(by_link),
            symmetry,
            tuple({numbers[link]: amount for link, amount in sorted(flow.items())} for flow in units),
            denominator,
        )
