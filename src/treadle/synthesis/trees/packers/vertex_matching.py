"""Spanning out-trees packed by matching trees to in-arcs, vertex by vertex: quick and low, but incomplete.

At a node each tree that is not rooted there uses one in-arc: a bipartite matching with capacities. Augmenting
paths move trees off overloaded arcs, one node at a time, under the condition that parents form no cycle.
Nothing is proved of a failure: `tree_packing` takes over. See docs/how-it-works/optimal-trees.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import partial

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.engine import core, run_core
from treadle.synthesis.core_values.tree_values import Arcs, MatchingOptions, TreeRows

MAX_CELLS = 2**27
"""Largest trees times nodes in memory, at 6 bytes each."""

FEW_CELLS = 2**22
"""Unit trees times nodes up to which a failed attempt is repeated with a tree for every unit."""

WORK_PER_CELL = 2000
"""Steps per tree and node after which an attempt is given up; counted, not timed, so results do not vary."""

_MIN_WORK = 10**6

_OK = 0


class Start(IntEnum):
    """Initial trees, before they are matched to capacities."""

    BREADTH_FIRST = 0
    PRICED = 1


@dataclass(frozen=True)
class Digraph:
    """Nodes 0..n-1, root multiplicities, arcs with capacities in trees; one arc at most per pair of nodes.

    Parameters
    ----------
    multiplicities : array of int64, shape (n,)
        r(v) >= 0: unit trees to be rooted at each node.
    tails, heads : arrays of int32, shape (a,)
    capacities : array of int64, shape (a,)
    """

    multiplicities: Int64Array
    tails: Int32Array
    heads: Int32Array
    capacities: Int64Array

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.multiplicities)


@dataclass(frozen=True)
class Matched:
    """Outcome of vertex matching.

    Parameters
    ----------
    root : array of int32, shape (T,)
    multiplicity : array of int64, shape (T,)
        Identical trees are one tree; all empty if the attempt failed.
    parent : array of int32, shape (T, n)
        -1 at the root.
    height : int
        Hops in the digraph, greatest over all trees.
    overload : int
        Units above capacity that could not be moved; 0: a packing.
    rehangs, splits, detours, work : int
        Moves of a subtree, multiplicities split for one, re-rootings, and total steps.
    failure : str
        Why no packing was found, or "".
    """

    root: Int32Array
    multiplicity: Int64Array
    parent: Int32Array
    height: int
    overload: int
    rehangs: int
    splits: int
    detours: int
    work: int
    failure: str = ""


def height_bound(
    n_nodes: int, tails: Int32Array, heads: Int32Array, terminals: Int32Array, roots: Int32Array
) -> int:
    """The greatest eccentricity of the roots, relays not counted: a lower bound on the height of spanning
    trees.

    Returns
    -------
    int
        Hops from terminal to terminal; -1 if some terminal is not reached.
    """
    return core.most_hops(n_nodes, tails, heads, terminals, roots)


def match_vertices(
    graph: Digraph,
    *,
    start: Start = Start.BREADTH_FIRST,
    detours: bool = True,
    first_height: int = 0,
    last_height: int | None = None,
    unit: int = 1,
    max_work: int | None = None,
    seed: int = 0,
) -> Matched:
    """Pack r(v) spanning out-trees rooted at each node v within the capacities, or fail.

    Trees start as shortest-path trees with balanced parents, or are extended along the arcs least loaded so
    far; with `detours`, where matching is stuck at a vertex its subtree is re-rooted in one tree. No tree
    becomes higher than `first_height`; where nothing moves any more the limit rises, up to `last_height`
    (default: no limit). `unit` divides all multiplicities. The search ends after `max_work` steps, by default
    2000 per tree and node. The seed breaks ties.

    At a node v the trees that are not rooted there each use one in-arc. On an overloaded arc a breadth-first
    search over the arcs into v finds trees that can use another one (a tree may reparent v to u if u is not
    below v), until it meets an arc with free capacity. The moves are in different trees, and change no load
    at other nodes. All trees of a root begin as one, and are split where only some of them can move. If that
    fails on a small graph, every unit tree is tried for itself. Incomplete: a failure says nothing about
    whether a packing exists.
    """
    units = graph.multiplicities // unit
    assert not np.any(graph.multiplicities % unit), "the unit must divide every multiplicity"
    roots = np.flatnonzero(units).astype(np.int32)
    n, total = graph.n_nodes, int(units.sum(dtype=object))
    if len(roots) * n > MAX_CELLS or n >= 2**16 - 1:
        none, units = roots[:0], units[:0]
        reason = f"{len(roots)} trees of {n} nodes are too many"
        return Matched(none, units, none.reshape(0, 0), 0, 0, 0, 0, 0, 0, reason)
    attempts = [(roots, units[roots])]
    if len(roots) < total <= FEW_CELLS // n:
        # trees of a root in one are quicker, but may not split where they would have to
        attempts.append((np.repeat(roots, units[roots]), np.ones(total, dtype=np.int64)))
    arcs = Arcs(graph.tails, graph.heads, graph.capacities // unit)
    for tree_root, tree_weight in attempts:
        limit = max(_MIN_WORK, WORK_PER_CELL * len(tree_root) * n) if max_work is None else max_work
        options = MatchingOptions(
            start=int(start),
            detours=detours,
            most_trees=MAX_CELLS // max(1, n),
            first_height=first_height,
            last_height=n - 1 if last_height is None else last_height,
            max_work=limit,
            seed=seed,
        )
        attempt = partial(core.match_trees, n, tree_root, tree_weight, arcs, options)
        status, rows, counts = run_core("vertex matching", attempt)
        trees, (height, overload, *_, work) = TreeRows(*rows), counts
        failure = f"stuck with {overload} trees too many on their arcs at height {height}"
        if status == _OK:
            failure = ""
        elif work > limit:
            failure = f"gave up after {work} steps, {overload} trees too many on their arcs"
        elif not overload:
            failure = "some node is not reached"
        parent = trees.parent.reshape(len(trees.root), n)
        found = Matched(trees.root, trees.multiplicity * unit, parent, *counts, failure)
        if not failure:
            break
    return found
