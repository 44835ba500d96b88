"""Forests in which every rank is at its distance from every root: one exact transport problem per rank.

For a root any parent one hop nearer will do, whatever other nodes choose: nodes are independent, and the
units of the roots are divided among a node's in-arcs by a flow. It finds such a forest if there is one.
Source: breadth-first broadcast (dissertation, chapter 3 and section 3.6) with trees in place of loads;
docs/how-it-works/optimal-trees.md.
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
    """Return r(v) trees of shortest paths rooted at each node v, within the capacities, or None.

    Trees have multiplicities that `unit`, a divisor of every r(v), divides. They are root, multiplicity and
    parent, shapes (T,), (T,), (T, n); parent -1 at the root. None also if tables or trees would be too large.

    A node may have any parent that is one hop nearer to the root: whatever the nodes choose, each for itself
    and for each unit, the result is a spanning tree. So every node is a transport problem of its own, in
    which the units of the roots are assigned to its in-arcs. It is solved exactly; the units of a root stay
    together where they can. This is breadth-first broadcast (dissertation, chapter 3) with trees for loads.
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
    """Whether r(v) trees of shortest paths rooted at each node v fit: then no cut is violated.

    False proves nothing. On dense graphs this takes a tenth of the time of flows.
    """
    control = np.zeros(3, dtype=np.int64) if control is None else control
    arcs = Arcs(tails, heads, capacities)
    return core.shortest_trees(multiplicities, arcs, False, MAX_WORDS, 0, control)[0] == _OK
