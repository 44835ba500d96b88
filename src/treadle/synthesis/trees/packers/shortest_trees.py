"""Forests in which every rank is at its distance from every root: one exact transport problem per rank.

For a root any parent one hop nearer will do, whatever other nodes choose: nodes are independent, and the
units of the roots are divided among a node's in-arcs by a flow. It finds such a forest if there is one.
Source: breadth-first broadcast (dissertation, chapter 3 and section 3.6) with trees in place of loads;
docs/algorithms/packers.md.
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.engine import core, run_core
from treadle.synthesis.core_values.tree_values import Arcs, TreeRows
from treadle.synthesis.trees.packers.vertex_matching import MAX_CELLS, Digraph

MAX_WORDS = 2**25
"""Words of 64 roots in the tables of distances, all nodes and distances together."""

DENSE = 16
"""Arcs per node from which on these trees come before others; on sparser graphs matching makes fewer."""

_OK = 0


def is_dense(n_nodes: int, n_arcs: int) -> bool:
    """Whether trees of shortest paths are to be tried first."""
    return n_arcs >= DENSE * n_nodes


def pack_shortest_trees(graph: Digraph, *, unit: int = 1) -> tuple[Int32Array, Int64Array, Int32Array] | None:
    """r(v) trees of shortest paths rooted at each node v, within the capacities; None if there are none.

    Parameters
    ----------
    graph : Digraph
    unit : int
        Unit of multiplicity; must divide every multiplicity.

    Returns
    -------
    tuple of (root, multiplicity, parent) or None
        Arrays of shapes (T,), (T,), (T, n); parent -1 at the root. As low as spanning trees can be. None also
        if tables or trees would become too large.

    Raises
    ------
    TimeLimitError
        When the deadline passed.

    Notes
    -----
    For a root, a node may have any parent that is one hop nearer to the root: whatever the nodes choose, each
    for itself and for each unit by itself, the result is a spanning tree. So every node is a transport
    problem of its own, in which the units of the roots are assigned to its in-arcs. It is solved exactly,
    roots whole where they can be. This is breadth-first-broadcast (dissertation, chapter 3) with trees for
    loads.
    """
    units = graph.multiplicities // unit
    assert not np.any(graph.multiplicities % unit), "the unit must divide every multiplicity"
    n = graph.n_nodes
    if np.count_nonzero(units) * n > MAX_CELLS:
        return None
    arcs = Arcs(graph.tails, graph.heads, graph.capacities // unit)
    status, rows = run_core(
        "shortest paths",
        lambda control: core.shortest_trees(units, arcs, True, MAX_WORDS, MAX_CELLS // max(1, n), control),
    )
    if status != _OK:
        return None
    trees = TreeRows(*rows)
    return trees.root, trees.multiplicity * unit, trees.parent.reshape(len(trees.root), n)


def have_shortest_trees(
    multiplicities: Int64Array,
    tails: Int32Array,
    heads: Int32Array,
    capacities: Int64Array,
    control: Int64Array | None = None,
) -> bool:
    """Do r(v) trees of shortest paths rooted at each node v fit? If so, no cut of the capacities is violated.

    Parameters
    ----------
    multiplicities : array of int64, shape (n,)
    tails, heads : arrays of int32, shape (a,)
    capacities : array of int64, shape (a,)
    control : array of int64, shape (3,), optional
        As `run_core` gives it.

    Notes
    -----
    False says nothing. Where it is true it is found much sooner than by flows, on dense graphs ten times.
    """
    watched = np.zeros(3, dtype=np.int64) if control is None else control
    status, _ = core.shortest_trees(
        multiplicities, Arcs(tails, heads, capacities), False, MAX_WORDS, 0, watched
    )
    return status == _OK
