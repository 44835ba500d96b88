"""What one rank does in the trees of a forest: the edges to its parents and to its children."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from treadle.arrays import Int64Array

if TYPE_CHECKING:
    from treadle.schedules.trees.forest import Tree


@dataclass(frozen=True, eq=False)
class RoleEdges:
    """Tree edges at one rank, sorted by (root, unit, peer): arrays of one length.

    Parameters
    ----------
    root : array of int64
        Root of the unit trees.
    unit, units : arrays of int64
        Unit trees unit, ..., unit + units - 1 of that root have the edge, by the same path.
    peer : array of int64
        Rank at the other end.
    path : array of int64
        Number of the path in the forest.
    depth : array of int64
        Rises from the root to the leaves of every unit tree, and is the same for both ends of an edge. In an
        explicit forest: edges from the root to the lower end.
    """

    root: Int64Array
    unit: Int64Array
    units: Int64Array
    peer: Int64Array
    path: Int64Array
    depth: Int64Array


@dataclass(frozen=True, eq=False)
class Roles:
    """The edges of all trees at one rank.

    Parameters
    ----------
    rank : int
    up : RoleEdges
        To parents: one for each unit tree that is not rooted at the rank. BROADCAST: it receives by them.
    down : RoleEdges
        To children. BROADCAST: it sends by them.
    """

    rank: int
    up: RoleEdges
    down: RoleEdges


def roles_in(trees: Iterable[Tree], rank: int) -> Roles:
    """Roles of a rank in trees written out, which come by root and in order of units."""
    up, down = [np.zeros((6, 0), dtype=np.int64)], [np.zeros((6, 0), dtype=np.int64)]
    root, start = -1, 0
    for tree in trees:
        start = start if tree.root == root else 0
        root = tree.root
        children = np.flatnonzero(tree.parent == rank)
        above = [] if rank == root else [_edge(tree, rank, int(tree.parent[rank]), start)]
        up += above
        down += [_edge(tree, child, child, start) for child in children.tolist()]
        start += tree.multiplicity
    return Roles(rank, _sorted(up), _sorted(down))


def _edge(tree: Tree, child: int, peer: int, start: int) -> Int64Array:
    """Columns of the edge above a rank, a row for each of its paths."""
    span = slice(int(tree.entry_offset[child]), int(tree.entry_offset[child + 1]))
    units = tree.entry_units[span]
    found = np.empty((6, len(units)), dtype=np.int64)
    found[0], found[2], found[3], found[4] = tree.root, units, peer, tree.entry_path[span]
    found[1] = start + np.cumsum(units) - units
    found[5] = _depth(tree, child)
    return found


def _depth(tree: Tree, rank: int) -> int:
    depth = 0
    while rank != tree.root and depth < len(tree.parent):  # circles are the judge's to tell
        rank, depth = int(tree.parent[rank]), depth + 1
    return depth


def _sorted(parts: list[Int64Array]) -> RoleEdges:
    columns = np.concatenate(parts, axis=1)
    return RoleEdges(*columns[:, np.lexsort((columns[3], columns[1], columns[0]))])
