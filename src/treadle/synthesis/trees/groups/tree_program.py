"""The linear program of groups with a column for each tree, made as trees are needed.

At the prices of its links the cheapest tree of every root is a minimum arborescence; where none is cheaper
than what its data are worth, the vertex is optimal, and prices are the lengths that prove it. Links that
are equivalent have one row, and equivalent groups the trees of one of them: a tree loads the links of a class
by what it takes of them on average. So there are as many rows as classes of links and of roots, however many
classes of pairs there are. Source: column generation (Dantzig and Wolfe 1960) on Edmonds' packing of
arborescences (1973).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array, sums_of
from treadle.context import context
from treadle.math.lp import PRIMAL, Program
from treadle.synthesis.trees.groups.capacity import CapacityRows
from treadle.synthesis.trees.groups.cheapest_trees import Floats, PricedTree, TreePricing
from treadle.synthesis.trees.groups.representative import Representative

_CHEAPER = 1e-9
"""Part by which a tree is to be cheaper than what its root's data are worth."""


_SOLVE_WORK, _ITERATION_WORK, _ENTRY_WORK = 500_000, 30_000, 100
"""Cost of a solve, of an iteration, and of a row or column in it: nanoseconds."""

_TREE_WORK, _PRICE_WORK = 100_000, 100
"""Cost of pricing a tree, and of a pair in it."""


@dataclass(frozen=True, eq=False)
class TreeColumn:
    """A tree of the program.

    Parameters
    ----------
    family, group : int
    root_row : int
        Row of the program that counts what its root's class sends.
    tree : PricedTree
    classes, counts : arrays of int64
        Pairs that it takes of each class of its group.
    """

    family: int
    group: int
    root_row: int
    tree: PricedTree
    classes: Int64Array
    counts: Int64Array


@dataclass(frozen=True, eq=False)
class RootClasses:
    """Members of a group that send equally.

    Parameters
    ----------
    first : array of int64
        Place in the group of one of each class.
    of_place : array of int64, shape (group size,)
        Class of each.
    sizes : array of int64
    rates : tuple of int
        Columns of what each class sends, where roots are free.
    """

    first: Int64Array
    of_place: Int64Array
    sizes: Int64Array
    rates: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class _Ways:
    """Arrays for pricing and counting the trees of a group and family."""

    family: int
    group: int
    pricer: TreePricing
    rows: tuple[int, ...]  # of each root that it prices
    at: Int64Array  # capacity row of each pair


class TreeProgram:
    """The program so far, with its solver.

    Parameters
    ----------
    groups : sequence of Representative
    capacity : CapacityRows
    families : tuple of bool
        Whether links are reversed (in-trees); both for unrestricted roots.
    is_rooted : bool
        One root has all data.
    joins_twins : bool
        Trees need not distinguish members with the same paths in and out.
    unit : int
        Bytes/s that count as 1.
    """

    def __init__(
        self,
        groups: Sequence[Representative],
        capacity: CapacityRows,
        families: tuple[bool, ...],
        *,
        is_rooted: bool,
        joins_twins: bool,
        unit: int,
    ) -> None:
        self.groups, self.capacity, self.families = groups, capacity, families
        self.free_roots, self.unit = len(families) > 1, unit
        self.columns: list[TreeColumn] = []
        # each solve goes on from the last, whose solution new columns leave feasible
        self.lp = Program("trees of groups", maximise=True, tolerance=1e-9, solver="simplex")
        self.lp.set_options(simplex_strategy=PRIMAL)  # a third of the time of the dual simplex
        self.lp.column(1.0)
        self.limits = [int(b) * int(n) for b, n in zip(capacity.bandwidths, capacity.sizes, strict=True)]
        for limit in self.limits:
            self.lp.row(-np.inf, limit / unit)
        self.root_classes: list[RootClasses] = []
        for group in groups:
            kinds = group.place_class[group.members]
            _, first, of_place = np.unique(kinds, return_index=True, return_inverse=True)
            rates = tuple(self.lp.column() for _ in first) if self.free_roots else ()
            sizes = np.bincount(of_place.ravel())
            self.root_classes.append(RootClasses(first, of_place.ravel(), sizes, rates))
        self.first_tree = self.lp.n_columns
        self.root_rows: dict[int, tuple[int, int]] = {}  # what its trees carry: so many times a column
        numbers = range(len(groups))
        self._ways = [way for i in numbers for way in self._ways_of(i, is_rooted, joins_twins)]
        self._even = 1.0 / capacity.bandwidths
        self._costs: float | None = None

    def _ways_of(self, number: int, is_rooted: bool, joins_twins: bool) -> list[_Ways]:
        """Add the rows of a group's roots, and return the pricing of trees for them."""
        group, classes = self.groups[number], self.root_classes[number]
        weights = np.array(group.weights)[classes.first] * classes.sizes
        sending = np.arange(len(classes.first)) if self.free_roots else np.flatnonzero(weights)
        if self.free_roots:
            self.lp.row(0.0, 0.0, [0, *classes.rates], [1.0, *[-1.0] * len(classes.rates)])
        found = []
        for family, turned in enumerate(self.families):
            rows = []
            for c in sending.tolist():
                carried = (classes.rates[c], 1) if self.free_roots else (0, int(weights[c]))
                rows.append(self.lp.row(0.0, 0.0, carried[:1], carried[1:]))
                self.root_rows[rows[-1]] = carried
            options = {"is_centre": is_rooted, "joins_twins": joins_twins}
            pricer = TreePricing(group, turned=turned, roots=classes.first[sending], **options)
            found.append(_Ways(family, number, pricer, tuple(rows), self.capacity.class_of[group.links]))
        return found

    def solve(self) -> tuple[Floats, Floats]:
        """Return values of the columns and prices of the rows at the optimum over the trees so far.

        Raises
        ------
        TimeLimitError
            If time was up.
        """
        each = _ITERATION_WORK + _ENTRY_WORK * (len(self.limits) + len(self.columns))
        if (budget := context().budget) is not None:
            self.lp.set_options(simplex_iteration_limit=int(max(1, budget.left // each)))
        try:
            return self.lp.solve(least_s=0.1)
        finally:
            context().spend(_SOLVE_WORK + each * self.lp.iterations)

    def prices(self, duals: Floats) -> Floats:
        """Return the length of each class of links."""
        return np.maximum(duals[: len(self.limits)], 0.0)

    def begin(self) -> None:
        """Add a cheapest tree of each root for lengths inverse to bandwidths.

        Raises
        ------
        InfeasibleError
            If a member cannot be reached.
        """
        for way in self._ways:
            for row, tree in zip(way.rows, way.pricer.cheapest(self._even[way.at]), strict=True):
                self._add(way, row, tree)

    def add_columns(self, duals: Floats) -> int:
        """Add the trees of negative reduced cost; return how many.

        Parameters
        ----------
        duals : array of float
            Of all rows.

        Raises
        ------
        TimeLimitError
            If the deadline passed.
        """
        prices, added = self.prices(duals) + (self._costs or 0.0), 0
        for way in self._ways:
            context().report("trees of groups", len(self.columns), 0)
            context().spend(_TREE_WORK * len(way.rows) + _PRICE_WORK * len(way.rows) * len(way.at))
            times = self.groups[way.group].times
            for row, tree in zip(way.rows, way.pricer.cheapest(prices[way.at]), strict=True):
                worth = float(duals[row])
                if tree.length * times < worth - _CHEAPER * max(abs(worth), 1e-300):
                    added += self._add(way, row, tree)
        return added

    def _add(self, way: _Ways, row: int, tree: PricedTree) -> bool:
        """Add a tree, unless the program has an equal column; return whether it was added."""
        group = self.groups[way.group]
        loads = sums_of(len(self.limits), way.at[tree.pairs], tree.times) * group.times
        used = np.flatnonzero(loads)
        if not self.lp.is_new((row, used.tobytes(), loads[used].tobytes())):
            return False
        counts = sums_of(group.n_classes, group.pair_class[tree.pairs], tree.times)
        classes = np.flatnonzero(counts)
        self.columns.append(TreeColumn(way.family, way.group, row, tree, classes, counts[classes]))
        self.lp.column(self._cost_of(self.columns[-1]), [*used, row], [*loads[used], -1.0])
        return True

    def _cost_of(self, column: TreeColumn) -> float:
        """Return the cost of a column in the program of least load."""
        if self._costs is None:
            return 0.0
        return -self._costs * float(int(column.counts.sum()) * self.groups[column.group].times)

    def load_least(self, rate: float | None) -> None:
        """Minimize the total load at a rate; None: maximize the rate again.

        Parameters
        ----------
        rate : float, optional
            In units of the program.
        """
        self._costs = None if rate is None else 1.0 / float(self.capacity.sizes.sum())
        self.lp.solver.changeColCost(0, 1.0 if rate is None else 0.0)
        self.lp.solver.changeColBounds(0, rate or 0.0, np.inf if rate is None else rate)
        for number, column in enumerate(self.columns):
            self.lp.solver.changeColCost(self.first_tree + number, self._cost_of(column))

    def allocation_of(self, values: NDArray[Any]) -> tuple[list[list[NDArray[Any]]], list[NDArray[Any]]]:
        """Allocations by family and representative, and unrestricted root rates by representative, of all
        columns.

        Parameters
        ----------
        values : array of float, or of Fraction objects, shape (columns,)
        """
        zero = values[0] * 0
        sizes = [group.class_sizes() for group in self.groups]
        shares = [[np.full(len(size), zero, dtype=values.dtype) for size in sizes] for _ in self.families]
        for number in np.flatnonzero(values[self.first_tree :]).tolist():
            column, value = self.columns[number], values[self.first_tree + number]
            each = column.counts.astype(values.dtype) * value / sizes[column.group][column.classes]
            shares[column.family][column.group][column.classes] += each
        free = [each for each in self.root_classes if each.rates]
        return shares, [(values[list(each.rates)] / each.sizes)[each.of_place] for each in free]

    def even_values(self) -> Floats:
        """Return values of the first tree of each root, at the rate that links carry: a feasible solution."""
        values = np.zeros(self.lp.n_columns)
        values[0] = 1.0
        for one in self.root_classes:
            values[list(one.rates)] = 1.0 / len(one.first)
        loads = np.zeros(len(self.limits))
        first = self.columns[: len(self.root_rows)]
        for number, column in enumerate(first):
            carried, factor = self.root_rows[column.root_row]
            values[self.first_tree + number] = factor * values[carried]
            group = self.groups[column.group]
            at = self.capacity.class_of[group.links[column.tree.pairs]]
            loads += factor * values[carried] * group.times * sums_of(len(loads), at, column.tree.times)
        used = np.flatnonzero(loads)
        room = np.array(self.limits, dtype=float)[used] / self.unit / loads[used]
        return values * float(room.min(initial=np.inf))
