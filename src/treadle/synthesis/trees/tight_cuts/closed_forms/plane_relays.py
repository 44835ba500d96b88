"""Deliveries that children with too little egress leave to those with spare egress: few, and spread
evenly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, mask_of
from treadle.schedules.factored.subproblem_trees import ragged
from treadle.synthesis.trees.tight_cuts.closed_forms.unit_assignment import UnitPool
from treadle.unsupported import Unsupported

MOST_DELIVERIES = 2**22
"""Deliveries by others that are listed one by one."""

_MOST_SHARE = 4  # at most every fourth delivery is made by another child
_MOST_PARTIAL = 2**10  # children that lack a plane
_TRIES = 16


@dataclass(frozen=True)
class Deliveries:
    """A block of trees of a root that reaches a child by another one; columns as in `PlaneTrees`."""

    root: Int32Array
    block: Int64Array
    child: Int32Array
    by: Int32Array


def deliveries(blocks: Int64Array, exits: Int64Array, meets: Meetings) -> Deliveries | Unsupported:
    """Assign the deliveries that roots cannot make, so that every child makes as many as its egress.

    A child has `blocks` blocks of trees and egress for `exits` deliveries, ``blocks.sum() * (n - 1)`` in all.

    Where no plane leads from a root to a child, another one that meets both delivers. Then a child that lacks
    egress gives away deliveries of all its blocks in turn, to children in turn that do not help; helpers take
    turns at each of these, by their spare egress. So every helper sends about equally much to every child.
    Source: docs/proofs/decomposition.md, section 6.
    """
    n, most = len(blocks), int(blocks.max()) + 1
    apart = meets.apart(blocks)
    if isinstance(apart, Unsupported):
        return apart
    lack = blocks * (n - 1) - exits
    assert not lack.sum(), "exits must be as many as deliveries"
    np.subtract.at(lack, apart[0], 1)
    np.add.at(lack, apart[3], 1)
    spread = _spread(blocks, lack)
    if isinstance(spread, Unsupported):
        return spread
    root, block, child, by = np.concatenate([apart, spread], axis=1)
    keys = (root * n + child) * most + block
    if len(np.unique(keys)) < len(keys) or np.isin((root * n + by) * most + block, keys).any():
        return Unsupported("deliveries through other ranks collide")
    order = np.argsort(keys)
    root, child, by = (row[order].astype(np.int32) for row in (root, child, by))
    return Deliveries(root, block[order], child, by)


@dataclass(frozen=True)
class Meetings:
    """Planes by which units leave and enter each child, arrays of bool of shape (n, planes)."""

    out: BoolArray
    into: BoolArray

    def apart(self, blocks: Int64Array) -> Int64Array | Unsupported:
        """Return root, block, child and helper where no plane joins root and child, shape (4, m)."""
        partial = np.flatnonzero(~(self.out & self.into).all(axis=1))
        if len(partial) > _MOST_PARTIAL:
            return Unsupported("too many children lack planes")
        out, into = self.out[partial].astype(np.int64), self.into[partial].astype(np.int64)
        pairs = partial[np.argwhere((out @ into.T == 0) & ~np.eye(len(partial), dtype=bool))].reshape(-1, 2)
        counts = blocks[pairs[:, 0]]
        root, child = (np.repeat(side, counts) for side in pairs.T)
        block = ragged(np.zeros_like(counts), counts)
        others = np.delete(np.arange(len(blocks)), partial)
        if len(root) and not len(others):
            return Unsupported("no child is on all planes")
        by = others[np.arange(len(root)) % len(others)] if len(root) else root
        return np.stack([root, block, child, by]).astype(np.int64)


def _spread(blocks: Int64Array, lack: Int64Array) -> Int64Array | Unsupported:
    """Return root, block, child and helper of as many deliveries as roots lack, shape (4, m)."""
    n = len(blocks)
    given = int(lack[lack > 0].sum())
    if not given:
        return np.zeros((4, 0), dtype=np.int64)
    targets = np.flatnonzero(lack >= 0)
    if given > min(MOST_DELIVERIES, n * int(blocks.sum()) // _MOST_SHARE) or lack.max() > len(targets) - 2:
        return Unsupported("too many deliveries would be made by others")
    root = np.repeat(np.arange(n), np.maximum(lack, 0))
    turn = np.arange(given)
    within = turn - np.searchsorted(root, root)
    cycle, number = np.divmod(turn, len(targets))
    child = targets[number]
    # helpers take turns at one target after the other
    helpers = UnitPool.of(np.zeros(n, dtype=np.int64), np.arange(n), np.maximum(-lack, 0), mixed=True).run
    by = helpers[number * cycle[-1] + np.minimum(number, given % len(targets) or len(targets)) + cycle]
    for shift in range(1, _TRIES + 1):
        # deliveries to the root itself, and second ones to a child
        first = np.unique(root * n + child, return_index=True)[1]
        wrong = np.flatnonzero(~mask_of(len(root), first) | (root == child)).tolist()
        if not wrong:
            return np.stack([root, within % blocks[root], child, by])
        for one in wrong if shift < _TRIES else ():  # change targets with a delivery of another root
            other = (one + shift * int(lack.max())) % given
            child[one], child[other] = child[other], child[one]
    return Unsupported("no children are found for deliveries by others")
