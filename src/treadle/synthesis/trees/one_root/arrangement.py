"""Arrangement of boxes: egress links are assigned to trees, which extend from the root box by box.

What enters a box in one place is a part of a tree: the ranks below that place. A part can be fed by any
egress link to the same switch, so the height is small if parts with much egress come first.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, Int64Array, sums_of
from treadle.unsupported import Unsupported


@dataclass(frozen=True, eq=False)
class Egress:
    """Units that leave boxes, in x groups of equal ones; the boxes are in order, that of the root first.

    Parameters
    ----------
    box : array of int32, shape (x,)
    switch : array of int32, shape (x,)
        Node that each leads to, numbered from 0.
    rank : array of int64, shape (x,)
        Row of `part` and `depth`: the rank that each leaves from.
    tree : array of int32, shape (x,)
        The tree that each is kept for, or -1.
    units : array of int64, shape (x,)
        Number of units, > 0. Links may be far wider than trees need, so units are never listed one by one.
    part : array of int64, shape (ranks, K)
        The part of each tree that a rank belongs to.
    depth : array of int32, shape (ranks, K)
        Hops from where that part is entered.
    """

    box: Int32Array
    switch: Int32Array
    rank: Int64Array
    tree: Int32Array
    units: Int64Array
    part: Int64Array
    depth: Int32Array

    def part_of(self, number: int, tree: int) -> int:
        """The part of a tree for which a group's egress can be used."""
        return int(self.part[self.rank[number], tree])


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts of K trees, p of them.

    Parameters
    ----------
    tree : array of int32, shape (p,)
    switch : array of int32, shape (p,)
        Where each is entered from; -1 of the parts that hold the root.
    height : array of int32, shape (p,)
        Hops from where it is entered to the last rank.
    """

    tree: Int32Array
    switch: Int32Array
    height: Int32Array


def arrange(
    exits: Egress, parts: Parts, favourite: Int32Array, n_switches: int
) -> tuple[Int64Array, int] | Unsupported:
    """Return the egress group that feeds each part (-1: it holds the root), and the height of the trees.

    `favourite` is the tree that each box forwards rather than others, shape (boxes,).

    A box that sends on one tree to many boxes makes that tree lower than one that sends on many trees to few
    boxes each (compare M. Castro et al., "SplitStream", SOSP 2003).
    """
    feeder = np.full(len(parts.tree), -1, dtype=np.int64)
    by_part: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, tree, units in _given(exits, parts, favourite, n_switches):
        by_part[exits.part_of(number, tree)].append((number, units))
    switch = exits.switch.tolist()
    height = 0
    for tree in range(exits.part.shape[1]):
        members = np.flatnonzero(parts.tree == tree)
        held = np.array([sum(units for _, units in by_part.get(one, ())) for one in members.tolist()])
        waiting: list[list[int]] = [[] for _ in range(n_switches)]
        for one in members[np.lexsort((parts.height[members], held))].tolist():
            if parts.switch[one] >= 0:
                waiting[parts.switch[one]].append(one)
        queue: list[tuple[int, int, int]] = []
        # parts that are entered, after how many hops; the first ones hold the root
        entered = [(one, 0) for one in members[parts.switch[members] < 0].tolist()]
        while entered or queue:
            for one, hops in entered:
                height = max(height, hops + int(parts.height[one]))
                for number, units in by_part.get(one, ()):
                    depth = int(exits.depth[exits.rank[number], tree])
                    heapq.heappush(queue, (hops + depth, number, units))
            entered = []
            if queue:
                hops, number, units = heapq.heappop(queue)
                if waiting[switch[number]]:
                    one = waiting[switch[number]].pop()
                    feeder[one] = number
                    entered = [(one, hops + 1)]
                    if units > 1:
                        heapq.heappush(queue, (hops, number, units - 1))
        if any(waiting):
            return Unsupported(f"tree {tree} does not come to all boxes")
    return feeder, height


def _given(
    exits: Egress, parts: Parts, favourite: Int32Array, n_switches: int
) -> Iterator[tuple[int, int, int]]:
    """Yield egress groups, their trees and units: as many to a switch as enter from it."""
    n_trees = exits.part.shape[1]
    entered = parts.switch >= 0
    wanted = sums_of((n_switches, n_trees), (parts.switch[entered], parts.tree[entered]), 1)
    left = exits.units.copy()

    def give(number: int, tree: int, units: int) -> tuple[int, int, int]:
        wanted[exits.switch[number], tree] -= units
        left[number] -= units
        return number, tree, units

    kept = np.flatnonzero(exits.tree >= 0)
    from_root = sums_of(n_trees, exits.tree[kept], exits.units[kept])
    for number in kept.tolist():
        yield give(number, int(exits.tree[number]), int(exits.units[number]))
    is_root = exits.box == 0
    for number in np.flatnonzero(is_root & (left > 0)).tolist():
        # other egress of the root's box is shared evenly by trees whose parts there hold the root
        holds_root = parts.switch[exits.part[exits.rank[number]]] < 0
        row = wanted[exits.switch[number]]
        while left[number] and (able := holds_root & (row > 0)).any():
            tree = int(np.argmin(np.where(able, from_root, np.iinfo(np.int64).max)))
            from_root[tree] += 1
            yield give(number, tree, 1)
    for number in np.flatnonzero(~is_root).tolist():
        tree = int(favourite[exits.box[number]])
        taken = int(min(left[number], max(wanted[exits.switch[number], tree], 0)))
        if taken:
            yield give(number, tree, taken)
    for number in np.argsort(is_root, kind="stable").tolist():
        row = wanted[exits.switch[number]]
        while left[number] and row.max() > 0:
            yield give(number, int(np.argmax(row)), 1)
        # units that no tree needs go to the favourite of the box, which then has more choice
        if left[number]:
            yield number, int(favourite[exits.box[number]]), int(left[number])
