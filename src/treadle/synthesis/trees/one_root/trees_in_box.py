"""The trees of one box, which is entered from outside at any rank, and left by its spare units.

The outside is one node. Where the root is there, K trees from it span the box; how often each enters
the box is left open, so the box need not be tight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array
from treadle.schedules.factored.subproblem_trees import ragged
from treadle.synthesis.trees.instance import find_violated_cut
from treadle.synthesis.trees.packers.packers import pack_smallest_height
from treadle.synthesis.trees.packers.rebuilding import rebuild_trees
from treadle.synthesis.trees.packers.tree_packing import to_forest
from treadle.synthesis.trees.switch_removal import LogicalGraph, remove_switches
from treadle.synthesis.trees.tight_cuts.subproblem_tables import local_instance, subgraph, table_of
from treadle.synthesis.trees.tight_cuts.subproblems import LocalSubproblem


@dataclass(frozen=True, eq=False)
class BoxTrees:
    """K unit trees of a box of n ranks; paths and links are numbered within the box.

    Parameters
    ----------
    parent : array of int32, shape (K, n)
        Rank of the box; -1 where the rank gets the data from outside, or is the root.
    path : array of int32, shape (K, n)
        From the parent, or from the switch outside; -1 at the root.
    exit_rank, exit_path, exit_tree : arrays of int32, shape (x,)
        Groups of equal units that leave the box, and the tree that each is kept for, or -1.
    exit_units : array of int64, shape (x,)
        Units of each group, > 0.
    path_offset, path_links : arrays of int64, int32
    """

    parent: Int32Array
    path: Int32Array
    exit_rank: Int32Array
    exit_path: Int32Array
    exit_tree: Int32Array
    exit_units: Int64Array
    path_offset: Int64Array
    path_links: Int32Array

    @cached_property
    def entry(self) -> Int32Array:
        """Ancestor without parent of each rank, which may be itself, shape (K, n)."""
        entry = np.broadcast_to(np.arange(self.parent.shape[1], dtype=np.int32), self.parent.shape).copy()
        while np.any((above := np.take_along_axis(self.parent, entry, axis=1)) >= 0):
            entry = np.where(above >= 0, above, entry)
        return entry

    @cached_property
    def depth(self) -> Int32Array:
        """Hops from that ancestor to each rank, shape (K, n)."""
        above, depth = self.parent.copy(), np.zeros(self.parent.shape, dtype=np.int32)
        while np.any(live := above >= 0):
            depth[live] += 1
            above[live] = self.parent[np.nonzero(live)[0], above[live]]
        return depth

    @cached_property
    def parts(self) -> tuple[Int64Array, Int64Array]:
        """Tree and first rank of each part, which is a rank without parent and all ranks below it."""
        tree, rank = np.nonzero(self.parent < 0)
        return tree.astype(np.int64), rank.astype(np.int64)

    @cached_property
    def part(self) -> Int64Array:
        """The part that each rank belongs to, shape (K, n)."""
        number = np.cumsum(self.parent < 0).reshape(self.parent.shape) - 1
        found: Int64Array = np.take_along_axis(number, self.entry, axis=1)
        return found

    @cached_property
    def heights(self) -> Int32Array:
        """Heights of the parts, in hops."""
        height = np.zeros(len(self.parts[0]), dtype=np.int32)
        np.maximum.at(height, self.part, self.depth)
        return height

    @cached_property
    def edges(self) -> tuple[Int64Array, Int64Array, Int64Array, Int32Array]:
        """Tree, rank and length of every path of the trees, and their links one after the other."""
        tree, rank = np.nonzero(self.path >= 0)
        return tree, rank, *self.links_of(self.path[tree, rank])

    def links_of(self, paths: Int32Array) -> tuple[Int64Array, Int32Array]:
        """Lengths of paths, and their links one after the other."""
        length = np.diff(self.path_offset)[paths]
        return length, self.path_links[ragged(self.path_offset[paths], length)]

    def ends(self, paths: Int32Array) -> tuple[Int32Array, Int32Array]:
        """First and last link of each path."""
        return self.path_links[self.path_offset[paths]], self.path_links[self.path_offset[paths + 1] - 1]


def trees_of_box(local: LocalSubproblem) -> BoxTrees:
    """Return K trees of a subproblem with an outside, for which the cut condition holds in the fabric.

    The root's K trees are at one of its children, or outside. Switches are split off with the outside as a
    terminal, so that units which leave the box keep what they need. Where the root is outside, what leaves is
    left out then. Where it is inside, trees span the outside too: each leaves the box at least once from a
    part that holds the root, and only then enters it.
    """
    n = local.n_children
    problem = local_instance(local)
    graph = remove_switches(problem, local.capacity, local.multiplicities)
    leaves = graph.heads == local.outside
    is_root = local.native.any()
    # the box of the root is not entered unless it must be
    inner = subgraph(graph, graph.tails != local.outside if is_root else ~leaves)
    if is_root:
        arcs = replace(problem, tails=inner.tails, heads=inner.heads, bandwidths=inner.capacities)
        if find_violated_cut(arcs, inner.capacities) is not None:
            inner = graph
    packing = pack_smallest_height(problem, inner, local.multiplicities).packing
    # within the arcs of the logical graph: the egress keeps its units
    packing = rebuild_trees(problem, inner, packing).packing
    table = table_of(to_forest(problem, inner, packing), np.zeros(len(local.tails), dtype=np.int64))
    rows = np.repeat(np.arange(len(table.units)), table.units)
    parent, path = table.parent[rows], table.path[rows]
    inside = parent[:, :n]
    return BoxTrees(
        np.where(inside == n, -1, inside),
        path[:, :n],
        *_exits(graph, np.flatnonzero(leaves), path[:, n].tolist()),
        table.path_offset,
        table.path_table,
    )


def trees_of_rank(leaves: BoolArray, units: Int64Array, trees: int, *, is_root: bool) -> BoxTrees:
    """Return K trees of a single rank, which the first units of its links enter, and all units leave.

    `leaves` says which of its links leave it, and `units` has the units of each.
    """
    numbers = np.arange(trees)
    into, out = (np.cumsum(np.where(which, units, 0)) for which in (~leaves, leaves))
    path = np.full(trees, -1) if is_root else np.searchsorted(into, numbers, side="right")
    # the first units that leave the root are kept for one tree each
    first = np.searchsorted(out, numbers[: out[-1]], side="right") if is_root else numbers[:0]
    rest = np.where(leaves, units, 0) - np.bincount(first, minlength=len(units))
    links = np.concatenate([first, np.flatnonzero(rest)])
    order = np.argsort(links, kind="stable")
    return BoxTrees(
        np.full((trees, 1), -1, dtype=np.int32),
        path[:, None].astype(np.int32),
        np.zeros(len(links), dtype=np.int32),
        links[order].astype(np.int32),
        np.concatenate([numbers[: len(first)], np.full(len(links) - len(first), -1)])[order].astype(np.int32),
        np.concatenate([np.ones(len(first), dtype=np.int64), rest[rest > 0]])[order],
        np.arange(len(units) + 1, dtype=np.int64),
        np.arange(len(units), dtype=np.int32),
    )


def _exits(
    graph: LogicalGraph, arcs: Int64Array, kept: Sequence[int]
) -> tuple[Int32Array, Int32Array, Int32Array, Int64Array]:
    """Return rank, path, tree and units of some arcs; the first units of path `kept[i]` belong to tree i."""
    counts = np.diff(graph.segment_offset)[arcs]
    segments = ragged(graph.segment_offset[arcs], counts)
    rank, path = np.repeat(graph.tails[arcs], counts), graph.segment_path[segments]
    left = graph.segment_units[segments].copy()
    own: list[tuple[int, int]] = []
    for tree, taken in enumerate(kept):
        if taken >= 0:
            place = int(np.flatnonzero((path == taken) & (left > 0))[0])
            left[place] -= 1
            own.append((place, tree))
    own += [(place, -1) for place in np.flatnonzero(left).tolist()]
    own.sort(key=itemgetter(0))  # stable: units kept for trees come first
    places, trees = np.array(own, dtype=np.int64).reshape(-1, 2).T
    return rank[places], path[places], trees.astype(np.int32), np.where(trees < 0, left[places], 1)
