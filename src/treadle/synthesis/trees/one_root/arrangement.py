"""Which box feeds which: exits of boxes are given to trees, and trees grow from the root box by box.

What enters a box in one place is a part of a tree: the ranks below that place. A part can be fed by any exit
to the same switch, so a tree is low if parts with many exits come first.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.refusal import Refusal


@dataclass(frozen=True, eq=False)
class Exits:
    """Units that leave boxes, x of them; those of the root's box come first, the boxes are in order.

    Parameters
    ----------
    box : array of int32, shape (x,)
    switch : array of int32, shape (x,)
        Where each leads to, numbered from 0.
    part : array of int64, shape (x, K)
        The part of each tree that each can be used for.
    depth : array of int32, shape (x, K)
        Hops from where that part is entered.
    tree : array of int32, shape (x,)
        The tree that each is kept for, or -1.
    """

    box: Int32Array
    switch: Int32Array
    part: Int64Array
    depth: Int32Array
    tree: Int32Array


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
    exits: Exits, parts: Parts, favourite: Int32Array, n_switches: int
) -> tuple[Int64Array, int] | Refusal:
    """The exit that feeds each part (-1: it holds the root), and the height of the trees.

    Parameters
    ----------
    exits : Exits
    parts : Parts
    favourite : array of int32, shape (boxes,)
        The tree that each box sends on rather than others.
    n_switches : int

    Notes
    -----
    A box that sends on one tree to many boxes makes that tree lower than one that sends on many trees to few
    boxes each (compare M. Castro et al., "SplitStream", SOSP 2003).
    """
    n_trees = exits.part.shape[1]
    given = _given(exits, parts, favourite, n_switches)
    feeder = np.full(len(parts.tree), -1, dtype=np.int64)
    by_part: dict[int, list[int]] = defaultdict(list)
    for number in np.flatnonzero(given >= 0).tolist():
        by_part[int(exits.part[number, given[number]])].append(number)
    switch = exits.switch.tolist()
    height = 0
    for tree in range(n_trees):
        members = np.flatnonzero(parts.tree == tree)
        held = np.array([len(by_part.get(one, ())) for one in members.tolist()])
        waiting: list[list[int]] = [[] for _ in range(n_switches)]
        for one in members[np.lexsort((parts.height[members], held))].tolist():
            if parts.switch[one] >= 0:
                waiting[parts.switch[one]].append(one)
        depth = exits.depth[:, tree]
        queue: list[tuple[int, int]] = []
        for one in members[parts.switch[members] < 0].tolist():
            height = max(height, int(parts.height[one]))
            queue.extend((int(depth[number]), number) for number in by_part.get(one, ()))
        heapq.heapify(queue)
        while queue:
            hops, number = heapq.heappop(queue)
            if not waiting[switch[number]]:
                continue
            one = waiting[switch[number]].pop()
            feeder[one] = number
            height = max(height, hops + 1 + int(parts.height[one]))
            for each in by_part.get(one, ()):
                heapq.heappush(queue, (hops + 1 + int(depth[each]), each))
        if any(waiting):
            return Refusal(f"tree {tree} does not come to all boxes")
    return feeder, height


def _given(exits: Exits, parts: Parts, favourite: Int32Array, n_switches: int) -> Int32Array:
    """The tree that each exit is given to: as many to each switch as are entered from it, if that can be."""
    n_trees = exits.part.shape[1]
    entered = parts.switch >= 0
    wanted = np.zeros((n_switches, n_trees), dtype=np.int64)
    np.add.at(wanted, (parts.switch[entered], parts.tree[entered]), 1)
    given = exits.tree.copy()
    kept = np.flatnonzero(given >= 0)
    np.subtract.at(wanted, (exits.switch[kept], given[kept]), 1)
    from_root = np.bincount(given[kept], minlength=n_trees)
    at_root = np.flatnonzero(exits.box == 0)
    for number in at_root[given[at_root] < 0].tolist():
        # what else leaves the root's box is shared evenly by trees whose parts there hold the root
        able = (parts.switch[exits.part[number]] < 0) & (wanted[exits.switch[number]] > 0)
        if able.any():
            tree = int(np.argmin(np.where(able, from_root, np.iinfo(np.int64).max)))
            given[number] = tree
            from_root[tree] += 1
            wanted[exits.switch[number], tree] -= 1
    spare = []
    for number in range(len(at_root), len(exits.box)):
        tree, switch = favourite[exits.box[number]], exits.switch[number]
        if wanted[switch, tree] > 0:
            given[number] = tree
            wanted[switch, tree] -= 1
        else:
            spare.append(number)
    spare += at_root[given[at_root] < 0].tolist()
    for number in spare:
        row = wanted[exits.switch[number]]
        tree = int(np.argmax(row))
        if row[tree] > 0:
            given[number] = tree
            row[tree] -= 1
        else:  # what nothing needs serves the tree that the box sends on: there is more to choose from
            given[number] = favourite[exits.box[number]]
    return given
