"""Cheap spanning out-trees within a height, of many roots at once: local search by re-hanging subtrees.

The cheapest one is a hop-constrained minimum spanning arborescence, which is NP-hard from height 2 on (it
contains facility location). The search moves a rank with its subtree below another rank, or turns a hop round
so that a rank takes its parent's place, where that is cheaper and stays within the height; the best move of
every tree at a time. Without turns it stops short where the links between pairs of ranks are scarce: neither
rank of a pair can go below the other, which is below it.
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import BoolArray, Int64Array, mask_of
from treadle.math.graphs import hops
from treadle.synthesis.trees.few.hop_prices import Floats

_LEAST = 1e-12
"""Of what all hops cost on average: moves that gain less are none."""


def hop_layers(cost: Floats, roots: Int64Array) -> Int64Array:
    """Hops from each root to every rank, shape (R, N); -1 where none lead."""
    tails, heads = np.nonzero(np.isfinite(cost))
    return hops(len(cost), tails, heads, roots)


def shortest_trees(cost: Floats, roots: Int64Array) -> Int64Array:
    """Trees of fewest hops to every rank, in each the cheapest last hop; parents, shape (R, N)."""
    layers = hop_layers(cost, roots)
    above = layers[:, :, None] + 1 == layers[:, None, :]
    parent: Int64Array = np.where(above, cost[None], np.inf).argmin(axis=1).astype(np.int64)
    parent[np.arange(len(roots)), roots] = -1
    return parent


def extended_trees(cost: Floats, roots: Int64Array, height: int) -> tuple[Int64Array, BoolArray]:
    """Trees grown by the cheapest hop within the height; parents, and which of them span."""
    n_roots, n = len(roots), len(cost)
    rows = np.arange(n_roots)
    depth = np.full((n_roots, n), height, dtype=np.int64)
    depth[rows, roots] = 0
    parent = np.full((n_roots, n), -1, dtype=np.int64)
    best = cost[roots].copy()  # the cheapest hop to each rank from the tree
    above = np.repeat(roots[:, None], n, axis=1)
    best[rows, roots] = np.inf
    joined = mask_of((n_roots, n), (rows, roots))
    for _ in range(n - 1):
        taken = best.argmin(axis=1)
        fine = np.isfinite(best[rows, taken])
        one, rank = rows[fine], taken[fine]
        parent[one, rank] = above[one, rank]
        depth[one, rank] = depth[one, above[one, rank]] + 1
        joined[one, rank] = True
        offered = np.where((depth[one, rank] < height)[:, None], cost[rank], np.inf)
        cheaper = (offered < best[one]) & ~joined[one]
        best[one] = np.where(cheaper, offered, best[one])
        above[one] = np.where(cheaper, rank[:, None], above[one])
        best[one, rank] = np.inf
    spans: BoolArray = np.all(joined, axis=1)
    return parent, spans


def rehung(cost: Floats, parent: Int64Array, height: int) -> tuple[Int64Array, Floats]:
    """Trees made cheaper, move by move, until none is left; parents and costs of the trees.

    Parameters
    ----------
    cost : array of float, shape (N, N)
    parent : array of int64, shape (R, N)
        Of spanning trees within the height; -1 at the roots.
    height : int
    """
    parent, n = parent.copy(), len(cost)
    finite = cost[np.isfinite(cost)]
    least = _LEAST + _LEAST * float(finite.mean()) if finite.size else _LEAST
    open_ = np.arange(len(parent))
    while open_.size:
        own = parent[open_]
        depth, below = _shape(own, height)
        is_root = own < 0
        now = cost[own, np.arange(n)]  # a root's -1 reads some price, which is not kept
        now[is_root] = -np.inf
        reach = np.where(below, depth[:, None, :], 0).max(axis=2) - depth  # height of each rank's subtree
        fits = depth[:, :, None] + 1 + reach[:, None, :] <= height
        gain = np.where(fits & ~below.transpose(0, 2, 1), now[:, None, :] - cost[None], -np.inf)
        place = gain.reshape(len(open_), -1).argmax(axis=1)
        best = gain.reshape(len(open_), -1)[np.arange(len(open_)), place]
        turned = _turned(cost, own, depth, below, height)
        child = turned.argmax(axis=1)
        turns = turned[np.arange(len(open_)), child] > np.maximum(best, least)
        moves = (best > least) & ~turns
        target, rank = np.divmod(place[moves], n)
        parent[open_[moves], rank] = target
        tree, low = open_[turns], child[turns]
        upper = parent[tree, low]
        parent[tree, low], parent[tree, upper] = parent[tree, upper], low
        open_ = open_[moves | turns]
    is_root = parent < 0
    total = np.where(is_root, 0.0, cost[parent, np.arange(n)]).sum(axis=1)
    return parent, total


def _turned(cost: Floats, parent: Int64Array, depth: Int64Array, below: BoolArray, height: int) -> Floats:
    """What is gained if a rank takes its parent's place and the parent goes below it, shape (R, N)."""
    upper = np.maximum(parent, 0)
    top = np.take_along_axis(parent, upper, axis=1)
    rows = np.arange(parent.shape[1])
    # the parent goes a hop down with all below it but for the rank's own
    left = np.take_along_axis(below, upper[:, :, None], axis=1) & ~below
    deepest = np.where(left, depth[:, None, :], 0).max(axis=2) + 1
    with np.errstate(invalid="ignore"):  # of ranks without a parent's parent, which are left out
        gain = cost[top, upper] + cost[upper, rows] - cost[top, rows] - cost[rows, upper]
    return np.where((parent >= 0) & (top >= 0) & (deepest <= height), gain, -np.inf)


def _shape(parent: Int64Array, height: int) -> tuple[Int64Array, BoolArray]:
    """Depth of each rank, shape (R, N), and whether rank u is v or below it, [tree, v, u]."""
    n_trees, n = parent.shape
    depth = np.zeros((n_trees, n), dtype=np.int64)
    below = np.zeros((n_trees, n, n), dtype=np.bool_)
    trees, ranks = np.indices((n_trees, n))
    at = np.broadcast_to(np.arange(n), parent.shape)
    below[trees, at, ranks] = True
    for _ in range(height):
        above = np.take_along_axis(parent, np.maximum(at, 0), axis=1)
        above = np.where(at < 0, -1, above)
        goes = above >= 0
        if not goes.any():
            break
        depth += goes
        below[trees[goes], above[goes], ranks[goes]] = True
        at = above
    return depth, below
