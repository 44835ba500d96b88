"""An integral number of trees per root, chosen among many to minimize the largest load."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array
from treadle.synthesis.trees.few.bounded_height_lp import (
    BoundedHeightLp,
    BoundedHeightTree,
    BoundedHeightTrees,
)
from treadle.synthesis.trees.few.hop_prices import Floats

_POWER = 24
"""Exponent of relative loads, whose sum approximates the largest: at 176 links within a quarter."""

_MOST = 300
"""Trees of a root that may replace another."""

_SWEEPS = 12
_RENEWALS = 8
"""Times that trees are added at the prices of loaded links."""


def choose_trees(found: BoundedHeightTrees, trees_per_root: int) -> list[tuple[BoundedHeightTree, int]]:
    """Choose `trees_per_root` trees for each unit of a root's weight, with their multiplicities.

    The shares of the linear program are rounded. Then each tree in turn is replaced by the one that lowers
    the sum of powers of relative loads most, among the program's trees and those that are cheap at prices
    proportional to loads. Deterministic.
    """
    choice = _Choice(found, trees_per_root)
    best, least = choice.chosen.copy(), choice.worst
    for renewal in range(_RENEWALS + 1):
        if renewal:
            choice.renew()
        choice.improve()
        if choice.worst < least * (1 - 1e-12):
            best, least = choice.chosen.copy(), choice.worst
    trees, times = np.unique(best, return_counts=True)
    return [(found.trees[tree], int(number)) for tree, number in zip(trees, times, strict=True)]


class _Choice:
    """Tree of each unit, and loads of links."""

    def __init__(self, found: BoundedHeightTrees, trees_per_root: int) -> None:
        self.program: BoundedHeightLp = found.program
        roots = np.array([tree.root for tree in found.trees])
        costs = np.array([float(found.prices[tree.links] @ tree.counts) for tree in found.trees])
        self._pools: dict[int, tuple[Int64Array, Floats]] = {}
        parts = []
        for root in self.program.roots.tolist():
            own = np.flatnonzero(roots == root)
            # a pool has the trees of its root that are cheapest at the dual prices
            pool = own[np.sort(np.argsort(costs[own], kind="stable")[:_MOST])]
            self._pools[root] = pool, np.stack([self._row(number) for number in pool.tolist()])
            # by largest remainders of the shares
            own = own[own < len(found.shares)]
            wanted, total = found.shares[own] * trees_per_root, int(self.program.problem.weights[root])
            counts = np.floor(wanted + 1e-9).astype(np.int64)
            missing = max(0, total * trees_per_root - int(counts.sum()))
            counts[np.argsort(counts - wanted, kind="stable")[:missing]] += 1
            parts.append(np.repeat(own, counts)[: total * trees_per_root])
        self.chosen: Int64Array = np.concatenate(parts)
        self._loads: Floats = np.sum([self._row(tree) for tree in self.chosen.tolist()], axis=0)

    def _row(self, number: int) -> Floats:
        """Return the relative load of each link by a tree."""
        tree, row = self.program.trees[number], np.zeros(len(self.program.bandwidths))
        row[tree.links] = tree.counts
        return row / self.program.bandwidths

    @property
    def worst(self) -> float:
        """Relative load of the most loaded link."""
        return float(self._loads.max())

    def improve(self) -> None:
        """Replace one tree after another by the best one, until none improves."""
        for _ in range(_SWEEPS):
            changed = False
            for unit, tree in enumerate(self.chosen.tolist()):
                numbers, rows = self._pools[self.program.trees[tree].root]
                without = self._loads - self._row(tree)
                scale = self.worst
                sums = (((without + rows) / scale) ** _POWER).sum(axis=1)
                best = int(sums.argmin())
                if sums[best] < ((self._loads / scale) ** _POWER).sum() * (1 - 1e-9):
                    self.chosen[unit], self._loads = int(numbers[best]), without + rows[best]
                    changed = True
            if not changed:
                return

    def renew(self) -> None:
        """Add trees that are cheap at prices proportional to loads."""
        prices = (self._loads / self.worst) ** (_POWER - 1) / self.program.bandwidths
        first = len(self.program.trees)
        self.program.add_at(prices)
        for number, tree in enumerate(self.program.trees[first:], first):
            numbers, rows = self._pools[tree.root]
            self._pools[tree.root] = np.append(numbers, number), np.vstack([rows, self._row(number)])
