"""The linear program of shares: the rate at which all groups are served at once, one variable per class.

Columns: the rate x; of each family (out-trees, in-trees) the share c of every class of pairs; for an
allreduce the rate of every class of roots; for each sink asked for so far a flow within the shares. Rows:
capacity of every class of fabric links, balance of shares where no member is, and what each sink is to
receive. Sinks are added as they are found not to be served: members that are alike are served alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array, positions_of
from treadle.math.lp import Program
from treadle.synthesis.trees.groups.capacity import CapacityRows
from treadle.synthesis.trees.groups.cheapest_trees import Floats
from treadle.synthesis.trees.groups.representative import Representative, SinkFlow, sink_flow

_SIMPLEX_ROWS = 1500
"""Rows up to which the simplex method is as quick as interior points and a crossover."""


@dataclass
class AllocationLp:
    """The program so far.

    Parameters
    ----------
    groups : sequence of Representative
    capacity : CapacityRows
    families : tuple of bool
        Per family: whether links are turned round (in-trees).
    free_roots : bool
        Roots take any share of the data, the same in all families.
    unit : int
        Bytes/s that count as 1.
    """

    groups: Sequence[Representative]
    capacity: CapacityRows
    families: tuple[bool, ...]
    free_roots: bool
    unit: int
    sinks: list[tuple[int, int, SinkFlow]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.n_columns = 1
        self._share_at = [[self._columns(g.n_classes) for g in self.groups] for _ in self.families]
        self._root_at: list[Int64Array] = []
        for group in self.groups if self.free_roots else ():
            _, inverse = np.unique(group.place_class[group.members], return_inverse=True)
            self._root_at.append(self._columns(int(inverse.max()) + 1) + inverse.ravel())
        self.n_own = self.n_columns
        self._entries: list[tuple[Int64Array, Int64Array, Floats]] = []
        self._upper: list[Floats] = []
        self._lower: list[Floats] = []
        self.n_rows = 0
        self._add_capacity()
        for family in range(len(self.families)):
            for number, group in enumerate(self.groups):
                self._add_balance(family, number, group)
        for number in range(len(self._root_at)):
            columns, counts = np.unique(self._root_at[number], return_counts=True)
            entries = np.append(columns, 0), np.append(counts.astype(float), -1.0)
            self._add_rows(np.zeros(len(entries[0]), dtype=np.int64), *entries, np.zeros(1), np.zeros(1))

    def _columns(self, count: int) -> int:
        start = self.n_columns
        self.n_columns += count
        return start

    def _add_rows(
        self, rows: Int64Array, columns: Int64Array, values: Floats, lower: Floats, upper: Floats
    ) -> None:
        self._entries.append((rows + self.n_rows, columns, values))
        self._lower.append(lower)
        self._upper.append(upper)
        self.n_rows += len(upper)

    def _add_capacity(self) -> None:
        rows = self.capacity
        starts = np.array(self._share_at)  # (families, groups)
        columns = [starts[family][rows.groups] + rows.classes for family in range(len(self.families))]
        self._add_rows(
            np.tile(rows.rows, len(columns)),
            np.concatenate(columns),
            np.tile(rows.counts.astype(float), len(columns)),
            np.full(len(rows.links), -np.inf),
            rows.bandwidths / self.unit,
        )

    def _add_balance(self, family: int, number: int, group: Representative) -> None:
        chosen = group.relay_classes()
        row = positions_of(group.n_places, chosen)
        into, out = row[group.heads] >= 0, row[group.tails] >= 0
        columns = self._share_at[family][number] + group.pair_class
        self._add_rows(
            np.concatenate([row[group.heads[into]], row[group.tails[out]]]),
            np.concatenate([columns[into], columns[out]]),
            np.concatenate([np.ones(into.sum()), -np.ones(out.sum())]),
            np.zeros(len(chosen)),
            np.zeros(len(chosen)),
        )

    def add_sink(self, family: int, number: int, sink: int) -> None:
        """Ask that a place of a representative be served in a family."""
        group = self.groups[number]
        flow = sink_flow(group, sink, turned=self.families[family])
        start = self._columns(len(flow.share))
        member = positions_of(group.n_places, group.members)
        fed = np.flatnonzero(member[flow.places] >= 0)
        who = member[flow.places[fed]]
        if self.free_roots:
            columns, values = self._root_at[number][who], np.ones(len(who))
        else:
            columns, values = np.zeros(len(who), dtype=np.int64), np.array(group.weights, dtype=float)[who]
        zero = np.zeros(len(flow.places))
        self._add_rows(
            np.concatenate([flow.rows, fed]),
            np.concatenate([start + flow.columns, columns]),
            np.concatenate([flow.signs.astype(float), values]),
            zero,
            zero,
        )
        n = len(flow.share)
        each = np.arange(n)
        self._add_rows(
            np.concatenate([each, each]),
            np.concatenate([start + each, self._share_at[family][number] + flow.share]),
            np.concatenate([np.ones(n), -np.ones(n)]),
            np.full(n, -np.inf),
            np.zeros(n),
        )
        self.sinks.append((family, number, flow))

    def leanest(self, count: int, unit: Fraction) -> Program:
        """The program of least capacity of all links together at a rate of `count` units of so many bytes/s.

        Links hold whole units only.
        """
        rows, columns, values = (np.concatenate(part) for part in zip(*self._entries, strict=True))
        # entries of one place add up: the solver aborts on two
        place = rows * self.n_columns + columns
        order = np.argsort(place, kind="stable")
        place, values = place[order], values[order]
        fresh = np.flatnonzero(np.diff(place, prepend=-1))
        values, place = np.add.reduceat(values, fresh), place[fresh]
        kept = values != 0
        rows, columns = np.divmod(place[kept], self.n_columns)
        costs = np.zeros(self.n_columns)
        for shares in self._share_at:
            for start, group in zip(shares, self.groups, strict=True):
                costs[start : start + group.n_classes] = group.class_sizes() * float(group.times)
        lower, upper = np.zeros(self.n_columns), np.full(self.n_columns, np.inf)
        lower[0] = upper[0] = count
        most = np.concatenate(self._upper)
        most[: len(self.capacity.links)] = [int(b) // unit for b in self.capacity.bandwidths]
        method = "simplex" if self.n_rows < _SIMPLEX_ROWS else "ipm"
        lp = Program("shares", maximise=True, tolerance=1e-9, solver=method)
        lp.load(
            -costs / costs.max(),
            np.concatenate(self._lower),
            most,
            [(rows, columns, values[kept])],
            columns_from=lower,
            columns_to=upper,
            by_row=True,
        )
        return lp

    def split(self, values: Sequence[Fraction]) -> tuple[list[list[list[Fraction]]], list[list[Fraction]]]:
        """Shares by family and representative, and root rates by representative, of all own columns."""
        shares = [
            [list(values[s : s + g.n_classes]) for s, g in zip(starts, self.groups, strict=True)]
            for starts in self._share_at
        ]
        return shares, [[values[j] for j in at] for at in self._root_at]
