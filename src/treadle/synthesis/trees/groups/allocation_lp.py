"""The linear program of allocations: the common rate of all groups, one variable per class.

Columns: the rate x; of each family (out-trees, in-trees) the share c of every class of pairs; for an
allreduce the rate of every class of roots; for each sink added so far a flow within the allocations. Rows:
capacity of every class of fabric links, balance of shares where no member is, and the supply of each sink.
Sinks are added when they turn out to be undersupplied: equivalent members are supplied equally. The optimum
is known from trees; this program finds other shares at that rate (`integral_group_allocation`).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array, positions_of
from treadle.math.lp import Program
from treadle.synthesis.trees.groups.capacity import capacity_rows
from treadle.synthesis.trees.groups.cheapest_trees import Floats
from treadle.synthesis.trees.groups.every_group import EveryGroup
from treadle.synthesis.trees.groups.rational_allocation import RationalAllocation, over_one_denominator
from treadle.synthesis.trees.groups.representative import sink_flow
from treadle.synthesis.trees.groups.supplied_sinks import Sink

_SIMPLEX_ROWS = 1500
"""Rows up to which the simplex method is as fast as interior points and a crossover."""

_FIRST_SINKS = 3
"""Sinks of each representative, of different colours."""


class AllocationLp:
    """The program so far.

    Parameters
    ----------
    every : EveryGroup
    families : tuple of bool
        Per family: whether links are reversed (in-trees). With two families roots are unrestricted: they take
        any share of the data, the same in both.

    Attributes
    ----------
    unit : int
        Bytes/s that count as 1.
    total : int
        algbw is this many times the program's rate.
    n_own : int
        Columns other than flows: rate, shares and root rates.
    """

    def __init__(self, every: EveryGroup, families: tuple[bool, ...]) -> None:
        self.every, self.groups, self.families = every, every.groups, families
        self.capacity = capacity_rows(every.union, every.colours, every.groups)
        self.unit, self.free_roots = int(every.union.topology.bandwidths.max()), len(families) > 1
        self.total = 1 if self.free_roots else sum(self.groups[0].weights)
        self.n_columns, self.n_rows = 1, 0
        self._share_at = [[self._columns(g.n_classes) for g in self.groups] for _ in families]
        self._root_at: list[Int64Array] = []
        for group in self.groups if self.free_roots else ():
            _, inverse = np.unique(group.place_class[group.members], return_inverse=True)
            self._root_at.append(self._columns(int(inverse.max()) + 1) + inverse.ravel())
        self.n_own = self.n_columns
        # rows, columns and values of entries, lower and upper bounds of rows
        self._parts: list[tuple[Int64Array, Int64Array, Floats, Floats, Floats]] = []
        self._add_capacity()
        for starts in self._share_at:
            for start, group in zip(starts, self.groups, strict=True):
                relays = positions_of(group.n_places, chosen := group.relay_classes())
                into, out = relays[group.heads], relays[group.tails]
                rows, ends = np.concatenate([into[into >= 0], out[out >= 0]]), (into >= 0, out >= 0)
                columns = np.concatenate([(start + group.pair_class)[end] for end in ends])
                signs = np.repeat([1.0, -1.0], [end.sum() for end in ends])
                self._add_rows(rows, columns, signs, np.zeros(len(chosen)), np.zeros(len(chosen)))
        for at in self._root_at:
            columns, counts = np.unique(at, return_counts=True)
            columns, values = np.append(columns, 0), np.append(counts.astype(float), -1.0)
            self._add_rows(np.zeros_like(columns), columns, values, np.zeros(1), np.zeros(1))
        self._known: set[Sink] = set()
        for family in range(len(families)):
            for number, group in enumerate(self.groups):
                _, first = np.unique(group.place_class[group.members], return_index=True)
                able = np.sort(first).tolist()
                if not self.free_roots:  # data that only one member sends need not come to it
                    able = [i for i in able if group.weights[i] != sum(group.weights)]
                for i in able[:_FIRST_SINKS]:
                    self.add_sink((family, number, int(group.members[i])))

    def _columns(self, count: int) -> int:
        self.n_columns += count
        return self.n_columns - count

    def _add_rows(
        self, rows: Int64Array, columns: Int64Array, values: Floats, lower: Floats, upper: Floats
    ) -> None:
        self._parts.append((rows + self.n_rows, columns, values, lower, upper))
        self.n_rows += len(upper)

    def _add_capacity(self) -> None:
        rows = self.capacity
        columns = [np.array(starts)[rows.groups] + rows.classes for starts in self._share_at]
        self._add_rows(
            np.tile(rows.rows, len(columns)),
            np.concatenate(columns),
            np.tile(rows.counts.astype(float), len(columns)),
            np.full(len(rows.links), -np.inf),
            rows.bandwidths / self.unit,
        )

    def add_sink(self, sink: Sink) -> bool:
        """Require the supply of a sink, by family, representative and position; return whether it is new."""
        if sink in self._known:
            return False
        self._known.add(sink)
        family, number, position = sink
        group = self.groups[number]
        flow = sink_flow(group, position, turned=self.families[family])
        n = len(flow.share)
        start, each = self._columns(n), np.arange(n)
        member = positions_of(group.n_places, group.members)[flow.places]
        fed = np.flatnonzero(member >= 0)
        columns, values = np.zeros_like(fed), np.array(group.weights, dtype=float)[member[fed]]
        if self.free_roots:
            columns, values = self._root_at[number][member[fed]], np.ones(len(fed))
        self._add_rows(
            np.concatenate([flow.rows, fed]),
            np.concatenate([start + flow.columns, columns]),
            np.concatenate([flow.signs.astype(float), values]),
            np.zeros(len(flow.places)),
            np.zeros(len(flow.places)),
        )
        self._add_rows(
            np.concatenate([each, each]),
            np.concatenate([start + each, self._share_at[family][number] + flow.share]),
            np.repeat([1.0, -1.0], n),
            np.full(n, -np.inf),
            np.zeros(n),
        )
        return True

    def leanest(self, count: int, unit: Fraction) -> Program:
        """Return the program of minimum total capacity at a rate of `count` units of `unit` bytes/s.

        Links hold integral numbers of units only.
        """
        rows, columns, values, least, most = map(np.concatenate, zip(*self._parts, strict=True))
        # entries of one cell add up: the solver aborts on two
        cell = rows * self.n_columns + columns
        order = np.argsort(cell, kind="stable")
        cell, values = cell[order], values[order]
        fresh = np.flatnonzero(np.diff(cell, prepend=-1))
        values, cell = np.add.reduceat(values, fresh), cell[fresh]
        kept = values != 0
        rows, columns = np.divmod(cell[kept], self.n_columns)
        costs = np.zeros(self.n_columns)
        for shares in self._share_at:
            for start, group in zip(shares, self.groups, strict=True):
                costs[start : start + group.n_classes] = group.class_sizes() * float(group.times)
        lower, upper = np.zeros(self.n_columns), np.full(self.n_columns, np.inf)
        lower[0] = upper[0] = count
        most[: len(self.capacity.links)] = [int(b) // unit for b in self.capacity.bandwidths]
        method = "simplex" if self.n_rows < _SIMPLEX_ROWS else "ipm"
        lp = Program("shares", maximise=True, tolerance=1e-9, solver=method)
        lp.load(
            -costs / costs.max(),
            least,
            most,
            [(rows, columns, values[kept])],
            columns_from=lower,
            columns_to=upper,
            by_row=True,
        )
        return lp

    def as_allocation(self, columns: Sequence[Fraction], rate: Fraction) -> RationalAllocation:
        """Return own columns as an allocation in bytes/s, at a rate in bytes/s for each weight."""
        shares = [
            [list(columns[s : s + g.n_classes]) for s, g in zip(starts, self.groups, strict=True)]
            for starts in self._share_at
        ]
        roots = [[columns[j] for j in at] for at in self._root_at]
        if not self.free_roots:
            roots = [[w * rate for w in group.weights] for group in self.groups]
        return over_one_denominator(rate * self.total, shares, roots)
