"""What the compiled core takes and returns of graphs and trees: tuples of arrays with named fields.

The core takes each of these as the plain tuple that it is, turns it into a struct in one place
(`src/core/bindings/trees.hpp`), and returns plain tuples that fit these. Arrays are contiguous.
"""

from __future__ import annotations

from typing import NamedTuple

from treadle.arrays import Int32Array, Int64Array

_LogicalArcs = tuple[
    Int32Array, Int32Array, Int64Array, Int64Array, Int32Array, Int64Array, Int64Array, Int32Array
]
_TreeRows = tuple[Int32Array, Int64Array, Int32Array]


class Arcs(NamedTuple):
    """Arcs of a digraph.

    Parameters
    ----------
    tail, head : arrays of int32, shape (a,)
    capacity : array of int64, shape (a,)
        Units; not negative.
    """

    tail: Int32Array
    head: Int32Array
    capacity: Int64Array


class RootedFabric(NamedTuple):
    """A fabric with trees to be rooted at its terminals.

    Parameters
    ----------
    n_nodes : int
        Terminals and relays.
    terminals : array of int32, shape (N,)
    multiplicity : array of int64, shape (N,)
        r(v) of each terminal.
    arcs : Arcs
        Parallel arcs and loops may occur.
    """

    n_nodes: int
    terminals: Int32Array
    multiplicity: Int64Array
    arcs: Arcs


class RankedFabric(NamedTuple):
    """A fabric whose terminals are nodes 0, ..., N - 1; the other nodes only relay.

    Parameters
    ----------
    n_ranks : int
    n_nodes : int
    arcs : Arcs
        Its links, in the numbers that paths use.
    """

    n_ranks: int
    n_nodes: int
    arcs: Arcs


class LogicalArcs(NamedTuple):
    """Arcs between ranks, each made of segments: units that take one path.

    Parameters
    ----------
    tail, head : arrays of int32, shape (a,)
    capacity : array of int64, shape (a,)
        The sum of the segments' units.
    segment_offset : array of int64, shape (a + 1,)
        Segments of arc i are segment_offset[i] up to segment_offset[i + 1].
    segment_path : array of int32, shape (s,)
    segment_units : array of int64, shape (s,)
    path_offset : array of int64, shape (p + 1,)
        Links of path i are path_links[path_offset[i]] up to path_links[path_offset[i + 1]].
    path_links : array of int32
        Links of the fabric.
    """

    tail: Int32Array
    head: Int32Array
    capacity: Int64Array
    segment_offset: Int64Array
    segment_path: Int32Array
    segment_units: Int64Array
    path_offset: Int64Array
    path_links: Int32Array


class TreeRows(NamedTuple):
    """Weighted spanning out-trees.

    Parameters
    ----------
    root : array of int32, shape (T,)
    multiplicity : array of int64, shape (T,)
        Unit trees that each one stands for.
    parent : array of int32, shape (T * n,)
        Row-major (tree, node); -1 at the root.
    """

    root: Int32Array
    multiplicity: Int64Array
    parent: Int32Array


class RoutedForest(NamedTuple):
    """Trees over logical arcs with their paths, in rank numbers.

    Parameters
    ----------
    arcs : LogicalArcs
    trees : TreeRows
        They take the units of an arc's segments in order.
    """

    arcs: LogicalArcs
    trees: TreeRows

    @classmethod
    def of(cls, forest: tuple[_LogicalArcs, _TreeRows]) -> RoutedForest:
        """From plain tuples, as the core returns them."""
        arcs, trees = forest
        return cls(LogicalArcs(*arcs), TreeRows(*trees))


class SearchLimits(NamedTuple):
    """How long and for what a search for better trees goes on.

    Parameters
    ----------
    height : int
        Hops: where lower trees are sought, a bound at which the search ends; else no tree gets higher.
    max_work : int
        Steps.
    max_cells : int
        Trees times nodes; trees are not split beyond.
    seed : int
        Breaks ties.
    """

    height: int
    max_work: int
    max_cells: int
    seed: int


class MatchingOptions(NamedTuple):
    """How trees are matched to in-arcs.

    Parameters
    ----------
    start : int
        As of `vertex_matching.Start`.
    detours : bool
        Re-root subtrees where matching alone is stuck.
    most_trees : int
        So many at most when those that are too heavy to move are split.
    first_height, last_height : int
        No tree gets higher than the first; raised, up to the last, where the matching is stuck.
    max_work : int
        Steps before giving up.
    seed : int
        Breaks ties.
    """

    start: int
    detours: bool
    most_trees: int
    first_height: int
    last_height: int
    max_work: int
    seed: int


class PlanePairs(NamedTuple):
    """Pairs of nodes with their units on each plane.

    Parameters
    ----------
    root, child : arrays of int32, shape (p,)
    units : array of int64, shape (p * planes,)
        Row-major (pair, plane).
    """

    root: Int32Array
    child: Int32Array
    units: Int64Array


class PlaneTable(NamedTuple):
    """Units that nodes send each other over planes: by groups of nodes, and pairs that differ.

    Parameters
    ----------
    n_groups, n_planes : int
    group : array of int32, shape (n,)
        Of each node.
    units : array of int64, shape (n_groups * n_groups * n_planes,)
        Row-major (group, group, plane), as of `EvenAllocation`.
    pairs : PlanePairs
        Those that have other units than their groups say.
    """

    n_groups: int
    n_planes: int
    group: Int32Array
    units: Int64Array
    pairs: PlanePairs


class Segments(NamedTuple):
    """Units of arcs that take a path.

    Parameters
    ----------
    arc : array of int32, shape (s,)
        Rising.
    path : array of int32, shape (s,)
    units : array of int64, shape (s,)
    """

    arc: Int32Array
    path: Int32Array
    units: Int64Array


class PathRows(NamedTuple):
    """Paths as lists of links.

    Parameters
    ----------
    offset : array of int64, shape (p + 1,)
    links : array of int32
        Of path i: links[offset[i]:offset[i + 1]].
    """

    offset: Int64Array
    links: Int32Array


class EdgePaths(NamedTuple):
    """Paths of tree edges, with units.

    Parameters
    ----------
    offset : array of int64, shape (T * n + 1,)
        Of edge (tree, node), row-major, into the two below.
    path : array of int32
    units : array of int64
    """

    offset: Int64Array
    path: Int32Array
    units: Int64Array


class BoundaryMembers(NamedTuple):
    """Through which members of the sets that a piece's children are paths and unit trees cross the borders.

    Parameters
    ----------
    start, end : arrays of int32, shape (p,)
        Member at which each path starts and ends; -1 for none.
    label_offset : array of int64, shape (n + 1,)
        Of each child, into the two below: its unit trees in order, by the member that has them.
    label_units : array of int64
    label_member : array of int32
    """

    start: Int32Array
    end: Int32Array
    label_offset: Int64Array
    label_units: Int64Array
    label_member: Int32Array
