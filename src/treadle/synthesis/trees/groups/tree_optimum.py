"""Solve the program over trees and turn both sides of its optimum into rationals that are checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from math import lcm

import numpy as np

from treadle.arrays import Int64Array
from treadle.context import TimeLimitError, context, under
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.group_certificate import GroupDualCertificate
from treadle.synthesis.trees.groups.cheapest_trees import Floats
from treadle.synthesis.trees.groups.every_group import EveryGroup
from treadle.synthesis.trees.groups.exact_basis import BasisSystem, Integers, simplest
from treadle.synthesis.trees.groups.rational_allocation import RationalAllocation, fits, over_one_denominator
from treadle.synthesis.trees.groups.representative import Representative
from treadle.synthesis.trees.groups.supplied_sinks import find_unmet, instance_on
from treadle.synthesis.trees.groups.tree_program import TreeColumn, TreeProgram
from treadle.synthesis.trees.optimality import reachable_rate
from treadle.topologies.transforms.balance import balanced_capacities

_SIMPLE = (1000, 10**6)
"""Denominators up to which floats are taken for the nearest simple fraction, at first."""

_CLOSE = Fraction(1, 10**8)
"""Part by which a bound in rationals may differ from the solver's optimum."""

TreeParts = tuple[tuple[TreeColumn, Fraction], ...]
"""Trees of representatives, and bytes/s of each (of all roots of its class together)."""

_MARGIN = 1e-8
"""Part of every share that is given up, as the solver may have exceeded capacities."""

_GRID = 2**56


class TreeOptimum:
    """Both sides of the optimum of groups whose allocations are equal within classes.

    Parameters
    ----------
    every : EveryGroup
    program : TreeProgram
    total : int
        algbw is this many times the program's rate.
    is_proven : bool
        Groups of a colour are copies of each other and links within a class the same link of those: then
        allocations are the trees', and supply every member.

    Attributes
    ----------
    shares : RationalAllocation
    upper : Fraction
        That `certificate` proves, bytes/s.
    certificate : GroupDualCertificate
    parts : TreeParts
        Of proven classes, the trees that make up the shares; none where time ran out.
    """

    def __init__(self, every: EveryGroup, program: TreeProgram, total: int, *, is_proven: bool) -> None:
        self.every, self.program, self.total = every, program, total
        self.parts: TreeParts = ()
        self._is_proven, self._topology = is_proven, every.union.topology
        self._values: Floats = np.zeros(0)
        program.begin()
        self.certificate, self.upper = self._first_bound()
        try:
            self.shares = self._optimised() or self._rounded()
        except TimeLimitError:
            with under(context().unlimited):  # what is left to do is short
                self.shares = self._rounded()

    def _first_bound(self) -> tuple[GroupDualCertificate, Fraction]:
        """Bound by link lengths inverse to bandwidths."""
        bandwidths = self.program.capacity.bandwidths.tolist()
        certificate = GroupDualCertificate(self.program.capacity.spread([Fraction(1, b) for b in bandwidths]))
        try:
            return certificate, self._bound(certificate)
        except ScheduleError:  # too many digits
            certificate = GroupDualCertificate(self.program.capacity.spread([Fraction(1)] * len(bandwidths)))
            return certificate, self._bound(certificate)

    def _bound(self, certificate: GroupDualCertificate) -> Fraction:
        return certificate.bound(self._topology, self.every.union.collective)

    def _optimised(self) -> RationalAllocation | None:
        """Return shares that attain the optimum, with the least load if confirmed; None if none are
        confirmed.

        Raises
        ------
        TimeLimitError
            If the deadline passed.
        """
        duals = self._solved()
        rate = float(self._values[0])
        self._prove(duals, rate)
        bound = self.upper / self.total
        if abs(float(bound / self.program.unit) - rate) > float(_CLOSE) * rate:
            return None
        self.program.load_least(float(bound / self.program.unit))
        try:
            self._solved()
            found = self._confirmed(bound)
        except InfeasibleError:  # by the solver's tolerances
            found = None
        if found is None:
            self.program.load_least(None)
            self._solved()
            found = self._confirmed(None)
        return found

    def _solved(self) -> Floats:
        """Add trees until none has a negative reduced cost; return the prices of the rows."""
        mean = np.zeros(len(self.program.limits))
        try:
            while True:
                self._values, duals = self.program.solve()
                mean += self.program.prices(duals)
                if not self.program.add_columns(duals):
                    return duals
        except TimeLimitError:
            # prices oscillate while trees are few: their mean proves more than the last
            self._take(_simple(mean, _SIMPLE[0]))
            raise

    def _prove(self, duals: Floats, rate: float) -> None:
        """Try rational lengths near the prices of capacity, and store the best bound."""
        close = Fraction(rate) * self.program.unit * self.total * (1 + _CLOSE)
        for prices in self._rational_prices(duals):
            if self._take(prices) <= close:
                return

    def _take(self, prices: list[Fraction]) -> Fraction:
        """Return the bound that lengths of classes prove, or the known one if that is smaller."""
        certificate = GroupDualCertificate(self.program.capacity.spread(prices))
        try:
            bound = self._bound(certificate)
        except ScheduleError:  # too many digits, or nothing proved
            return self.upper
        if bound < self.upper:
            self.certificate, self.upper = certificate, bound
        return self.upper

    def _rational_prices(self, duals: Floats) -> Iterator[list[Fraction]]:
        """Yield simple fractions near the solver's prices, then those of its basis."""
        prices = self.program.prices(duals)
        for limit in _SIMPLE:
            yield _simple(prices, limit)
        system = BasisSystem(self.program.lp)
        costs: Integers = np.zeros(system.n_columns, dtype=object)
        costs[0] = 1
        for digits in system.dual(costs):
            found = simplest(digits, len(prices))
            if found is not None:
                yield [max(v, Fraction(0)) for v in found]

    def _confirmed(self, rate: Fraction | None) -> RationalAllocation | None:
        """Return the basis's shares if they pass all checks; at a given rate or the basis's."""
        for values in self._rational_values(rate):
            if min(values) < 0 or not self._add_up(values):
                continue
            shares, roots = self.program.allocation_of(np.array(values, dtype=object))
            if not self.program.free_roots:
                roots = [np.array(group.weights, dtype=object) * values[0] for group in self.program.groups]
            found = over_one_denominator(values[0] * self.total, shares, roots)
            if not fits(self.every.union, self.every.number, found):
                continue
            if self._is_proven:
                trees = zip(self.program.columns, values[self.program.first_tree :], strict=True)
                self.parts = tuple((column, value) for column, value in trees if value)
                return found
            return found if self._serve(found) else None
        return None

    def _rational_values(self, rate: Fraction | None) -> Iterator[list[Fraction]]:
        """Yield candidates for the basis's columns, the simplest first."""
        system, program = BasisSystem(self.program.lp), self.program
        scale = 1 if rate is None else rate.denominator
        needed: Integers = np.zeros(system.n_rows, dtype=object)
        needed[: len(program.limits)] = [limit * scale for limit in program.limits]
        if rate is not None and 0 not in system.columns:
            needed = needed - system.column(0) * rate.numerator
        for digits in system.primal(needed):
            found = simplest(digits, system.n_columns)
            if found is not None:
                found = [value / scale for value in found]
                if rate is not None:
                    found[0] = rate
                yield found

    def _add_up(self, values: list[Fraction]) -> bool:
        """Whether the trees of each class of roots carry what it sends, and unrestricted roots send all."""
        program, sent = self.program, defaultdict[int, Fraction](Fraction)
        for column, value in zip(program.columns, values[program.first_tree :], strict=True):
            sent[column.root_row] += value
        rates = [sum(values[j] for j in each.rates) for each in program.root_classes if each.rates]
        return all(rate == values[0] for rate in rates) and all(
            sent[row] == factor * values[column] for row, (column, factor) in program.root_rows.items()
        )

    def _serve(self, found: RationalAllocation) -> bool:
        """Whether every member of every group is supplied."""
        try:
            return find_unmet(self.every, self.program.families, found)[0]
        except InfeasibleError:  # too many digits
            return False

    def _rounded(self) -> RationalAllocation:
        """Return shares near the solver's, at a rate that they certainly attain."""
        values = self._values
        if not len(values) or not values[0]:
            values = self.program.even_values()
        return rounded_allocation(self.every, self.program, *self.program.allocation_of(values))


def _simple(prices: Floats, limit: int) -> list[Fraction]:
    """Return fractions near prices scaled to a maximum of 1."""
    near = prices / max(float(prices.max(initial=0.0)), 1e-300)
    return [Fraction(v).limit_denominator(limit) for v in near.tolist()]


def rounded_allocation(
    every: EveryGroup, program: TreeProgram, near: Sequence[Sequence[Floats]], roots: Sequence[Floats]
) -> RationalAllocation:
    """Return balanced shares within those of a solution, and the exact rate that they attain.

    Shares of classes form a circulation but for the members: an arc for each class of pairs, a node for each
    class of places. So imbalances from rounding are repaired by removing a little more.
    """
    parts = lcm(*(int(size) for group in program.groups for size in group.class_sizes()))
    largest = max(
        float(values[group.pair_class].sum()) * program.unit
        for family in near
        for values, group in zip(family, program.groups, strict=True)
    )
    # per byte/s; where the solver found no shares any number is right
    ticks = Fraction(_GRID / (parts * largest)) if largest > 1e-290 else Fraction(_GRID // parts)
    shares = [
        [
            _balanced(group, values * (program.unit * float(ticks) * (1 - _MARGIN)), parts)
            for group, values in zip(program.groups, family, strict=True)
        ]
        for family in near
    ]
    supplies = [list(group.weights) for group in program.groups]
    if program.free_roots:  # integers in proportion to what members send
        scaled = [np.floor(values / max(values.max(), 1e-300) * 2**20) for values in roots]
        supplies = [[int(value) for value in values] for values in scaled]

    def delivered(group: Representative, turned: bool, shares: Int64Array, fed: Sequence[int]) -> Fraction:
        problem = instance_on(every.union.topology, group, turned, np.array(fed, dtype=np.int64))
        return sum(fed) * reachable_rate(replace(problem, bandwidths=shares[group.pair_class]))

    rate = min(
        delivered(group, turned, family[number], fed)
        for number, group in chain(enumerate(program.groups), every.others())
        for fed in (every.in_order_of(group.kind, supplies[number]),)
        for turned, family in zip(program.families, shares, strict=True)
    )
    scale = ticks * parts
    return over_one_denominator(
        rate / scale,
        [[[int(v) / scale for v in values] for values in family] for family in shares],
        [[w * rate / (sum(values) * scale) for w in values] for values in supplies],
    )


def _balanced(group: Representative, ticks: Floats, parts: int) -> Int64Array:
    """Allocations of classes that are not larger, in integral ticks / parts, balanced where no member is."""
    sizes = group.class_sizes()
    relays = group.place_class[group.relay_classes()]
    _, first = np.unique(group.pair_class, return_index=True)
    flows = np.floor(np.maximum(ticks, 0.0)).astype(np.int64) * sizes
    kept = balanced_capacities(
        group.place_class[group.tails[first]].astype(np.int32),
        group.place_class[group.heads[first]].astype(np.int32),
        flows,
        relays.tolist(),
    )
    return kept * (parts // sizes)
