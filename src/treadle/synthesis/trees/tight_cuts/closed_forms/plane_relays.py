"""Deliveries that children with too few exits leave to those with spare ones: few, and spread evenly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array
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
    """Who delivers what roots cannot, so that every child makes as many deliveries as it has exits.

    Parameters
    ----------
    blocks : array of int64, shape (n,)
        Blocks of trees of each child.
    exits : array of int64, shape (n,)
        ``blocks.sum() * (n - 1)`` in all.
    meets : Meetings
        Which children may send to which.

    Notes
    -----
    Source: docs/algorithms/decomposition.md, section 6. Where no plane leads from a root to a child, another
    one that meets both delivers. Then a child that lacks exits gives away deliveries of all its blocks in
    turn, to children in turn that do not help; helpers take turns at each of these, by what each has to
    spare. So everyone is sent to by every helper about equally much.
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
        return Unsupported("deliveries by others stand in each other's way")
    order = np.argsort(keys)
    root, child, by = (row[order].astype(np.int32) for row in (root, child, by))
    return Deliveries(root, block[order], child, by)


@dataclass(frozen=True)
class Meetings:
    """Planes by which units leave and enter each child, arrays of bool of shape (n, planes)."""

    out: BoolArray
    into: BoolArray

    def apart(self, blocks: Int64Array) -> Int64Array | Unsupported:
        """Root, block, child and relay of all blocks whose root no plane joins to the child, shape (4, m)."""
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
        by = others[np.arange(len(root)) % max(1, len(others))] if len(root) else root
        return np.stack([root, block, child, by]).astype(np.int64)


def _spread(blocks: Int64Array, lack: Int64Array) -> Int64Array | Unsupported:
    """Root, block, child and relay of deliveries, as many as roots lack, shape (4, m)."""
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
    for shift in range(1, _TRIES):
        wrong = np.flatnonzero(_wrong(root, child, n))
        for one in wrong.tolist():  # change targets with a delivery of another root
            other = (one + shift * int(lack.max())) % given
            child[one], child[other] = child[other], child[one]
        if not len(wrong):
            break
    if _wrong(root, child, n).any():
        return Unsupported("no children are found for deliveries by others")
    return np.stack([root, within % blocks[root], child, by])


def _wrong(root: Int64Array, child: Int64Array, n: int) -> BoolArray:
    """Deliveries to the root itself, or a second one to a child."""
    pair = root * n + child
    order = np.argsort(pair, kind="stable")
    again = np.zeros(len(pair), dtype=bool)
    again[order[1:]] = pair[order[1:]] == pair[order[:-1]]
    wrong: BoolArray = again | (root == child)
    return wrong
