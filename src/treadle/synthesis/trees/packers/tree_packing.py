"""Spanning-tree packing in the logical graph, mapped back to physical paths.

Edmonds' theorem: if the cut condition holds, the trees exist. They are built breadth-first in batches, and a
batch is kept if the cut condition holds for the rest (Theorem 30), so it is sound however its trees were
chosen. Where that fails, trees are extended arc by arc, each arc with the largest multiplicity mu that keeps
the cut condition (Theorem 32). Source: dissertation, Algorithm 4, appendix B.5.3 (Theorems 29 to 32);
docs/proofs/forestcoll.md, "Tree packing".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from treadle.arrays import Int32Array, Int64Array, positions_of, sums_of
from treadle.engine import core, run_core
from treadle.schedules.trees.forest import Direction, Forest
from treadle.schedules.trees.forest_transforms import reverse
from treadle.synthesis.core_values.tree_values import Arcs, EdgePaths, LogicalArcs, TreeRows
from treadle.synthesis.trees.instance import Instance
from treadle.synthesis.trees.switch_removal import LogicalGraph, logical_graph


@dataclass(frozen=True)
class Packing:
    """Weighted spanning trees of a logical graph.

    Parameters
    ----------
    root : array of int32, shape (T,)
        Rank.
    multiplicity : array of int64, shape (T,)
    parent : array of int32, shape (T, N)
        Rank; -1 at the root.
    speculative, exact : int
        Unit trees built greedily and checked in batches, and built with one flow test per edge.
    """

    root: Int32Array
    multiplicity: Int64Array
    parent: Int32Array
    speculative: int = 0
    exact: int = 0

    @staticmethod
    def by_root(trees: TreeRows, n: int) -> Packing:
        """Return the core's trees of n ranks, sorted by root."""
        order = np.argsort(trees.root, kind="stable")
        parent = trees.parent.reshape(len(order), n)[order]
        return Packing(trees.root[order], trees.multiplicity[order], parent)


def pack_trees(
    problem: Instance, graph: LogicalGraph, multiplicities: Int64Array, *, speculate: bool = True
) -> Packing:
    """Pack r(v) spanning out-trees rooted at each terminal v; the cut condition must hold.

    Algorithm 4 with mu by Theorem 32, on a residual flow whose sink moves to the head of each tested edge.
    Unless `speculate` is false, entire trees are first tried greedily, breadth-first, in batches that one
    check of the cut condition accepts. Source: Theorems 29-32 (B.5.3).
    """
    arcs = rank_arcs(problem, graph)
    status, rows, (speculative, exact) = run_core(
        "tree packing", lambda control: core.pack(multiplicities, arcs, speculate, control)
    )
    assert status == 0, f"tree packing ended with status {status}"
    packing = Packing.by_root(TreeRows(*rows), len(problem.terminals))
    return replace(packing, speculative=speculative, exact=exact)


def rank_arcs(problem: Instance, graph: LogicalGraph) -> Arcs:
    """The arcs of a logical graph in rank numbers."""
    rank_of = positions_of(problem.n_nodes, problem.terminals, dtype=np.int32)
    return Arcs(rank_of[graph.tails], rank_of[graph.heads], graph.capacities)


def logical_arcs(problem: Instance, graph: LogicalGraph) -> LogicalArcs:
    """A logical graph in rank numbers, as the core takes it."""
    segments = graph.segment_offset, graph.segment_path, graph.segment_units
    return LogicalArcs(*rank_arcs(problem, graph), *segments, graph.path_offset, graph.path_links)


def tree_rows(packing: Packing) -> TreeRows:
    """Trees as the core takes them."""
    return TreeRows(packing.root, packing.multiplicity, np.ascontiguousarray(packing.parent).ravel())


def to_forest(problem: Instance, graph: LogicalGraph, packing: Packing) -> Forest:
    """Give every tree edge the physical paths of its logical arc, in the fabric's own direction."""
    n = len(problem.terminals)
    status, entries = core.assign_paths(n, logical_arcs(problem, graph), tree_rows(packing))
    assert status == 0, "the trees use more of a logical arc than it has"
    paths = EdgePaths(*entries)
    for array in (*paths, packing.parent):
        array.setflags(write=False)  # so that the forest adopts it without a copy
    forest = Forest(
        direction=Direction.BROADCAST,
        root_multiplicity=sums_of(n, packing.root, packing.multiplicity),
        tree_root=packing.root,
        tree_multiplicity=packing.multiplicity,
        parent=packing.parent,
        entry_offset=paths.offset,
        entry_path=paths.path,
        entry_units=paths.units,
        path_offset=graph.path_offset,
        path_links=graph.path_links,
    )
    return forest if problem.direction is Direction.BROADCAST else reverse(forest)


def from_forest(problem: Instance, forest: Forest) -> tuple[LogicalGraph, Packing]:
    """Return a forest as trees of a logical graph: the inverse of `to_forest`, up to the choice of paths."""
    turned = forest if problem.direction is Direction.BROADCAST else reverse(forest)
    first, last = turned.path_ends()
    units = turned.path_units()
    path_offset, path_links = turned.all_paths()
    used = np.flatnonzero(units)
    # paths with the same ends are one arc of the logical graph, with their units added up
    ends = problem.tails[first[used]], problem.heads[last[used]]
    graph = logical_graph(*ends, units[used], used, path_offset, path_links)
    return graph, Packing(*turned.tree_table())
