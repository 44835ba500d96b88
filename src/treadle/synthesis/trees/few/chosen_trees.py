"""A whole number of trees per root, chosen among many so that the fullest link is least full."""

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
"""Of relative loads, whose sum stands for the largest: at 176 links they differ by a quarter at most."""

_MOST = 300
"""Trees of a root that are tried in place of another."""

_SWEEPS = 12
_RENEWALS = 8
"""Times that trees are made at the prices of what is loaded, and tried too."""


def choose_trees(found: BoundedHeightTrees, trees_per_root: int) -> list[tuple[BoundedHeightTree, int]]:
    """So many trees for each unit of a root's weight, with their multiplicities.

    Parameters
    ----------
    found : BoundedHeightTrees
    trees_per_root : int
        k, at least 1.

    Notes
    -----
    The shares of the linear program, rounded; then tree by tree what lowers the sum of powers of relative
    loads most, among the program's trees and those that are cheap where links are as dear as they are full.
    Deterministic.
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
    """Which tree each unit takes, and how full links are."""

    def __init__(self, found: BoundedHeightTrees, trees_per_root: int) -> None:
        self.program: BoundedHeightLp = found.program
        self._units = trees_per_root * self.program.problem.weights
        self._pools: dict[int, tuple[Int64Array, Floats]] = {}
        self._begin(found.prices)
        parts = [self._rounded(found.shares, root, trees_per_root) for root in self.program.roots.tolist()]
        self.chosen: Int64Array = np.concatenate(parts)
        self._loads = np.zeros(len(self.program.bandwidths))
        for tree in self.chosen.tolist():
            self._loads += self._row(tree)

    def _row(self, tree: int) -> Floats:
        one, row = self.program.trees[tree], np.zeros(len(self.program.bandwidths))
        row[one.links] = one.counts
        row /= self.program.bandwidths
        return row

    def _begin(self, prices: Floats) -> None:
        """Pools of the trees of each root that are cheapest at these prices."""
        of_root: dict[int, list[int]] = {root: [] for root in self.program.roots.tolist()}
        for number, tree in enumerate(self.program.trees):
            of_root[tree.root].append(number)
        for root, numbers in of_root.items():
            trees = [self.program.trees[number] for number in numbers]
            costs = np.array([float(prices[tree.links] @ tree.counts) for tree in trees])
            kept = np.array(numbers, dtype=np.int64)[np.sort(np.argsort(costs, kind="stable")[:_MOST])]
            self._pools[root] = kept, np.stack([self._row(number) for number in kept.tolist()])

    def _rounded(self, shares: Floats, root: int, trees_per_root: int) -> Int64Array:
        """Trees of a root by largest remainders of their shares."""
        own = np.array([i for i, tree in enumerate(self.program.trees[: len(shares)]) if tree.root == root])
        wanted = shares[own] * trees_per_root
        counts, total = np.floor(wanted + 1e-9).astype(np.int64), int(self._units[root])
        order = np.argsort(counts - wanted, kind="stable")
        counts[order[: max(0, total - int(counts.sum()))]] += 1
        return np.repeat(own, counts)[:total]

    @property
    def worst(self) -> float:
        """Relative load of the fullest link."""
        return float(self._loads.max())

    def improve(self) -> None:
        """Replace tree after tree by the best one, until nothing betters."""
        for _ in range(_SWEEPS):
            changed = False
            for place, tree in enumerate(self.chosen.tolist()):
                numbers, rows = self._pools[self.program.trees[tree].root]
                without = self._loads - self._row(tree)
                scale = self.worst
                sums = (((without + rows) / scale) ** _POWER).sum(axis=1)
                best = int(sums.argmin())
                if sums[best] < ((self._loads / scale) ** _POWER).sum() * (1 - 1e-9):
                    self.chosen[place], self._loads = int(numbers[best]), without + rows[best]
                    changed = True
            if not changed:
                return

    def renew(self) -> None:
        """Add trees that are cheap where links are as dear as they are full."""
        prices = (self._loads / self.worst) ** (_POWER - 1) / self.program.bandwidths
        first = len(self.program.trees)
        self.program.add_at(prices)
        for number in range(first, len(self.program.trees)):
            root = self.program.trees[number].root
            numbers, rows = self._pools[root]
            self._pools[root] = np.append(numbers, number), np.vstack([rows, self._row(number)])
