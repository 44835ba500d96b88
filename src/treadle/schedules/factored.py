"""Forests in factored form: pieces solved once, glued at the capacity units that they share.

A laminar family of node sets cuts the fabric into pieces. A piece knows its set's children (ranks, or sets
that are pieces themselves) as points, and the world outside as one more. Equal pieces are stored once.
See docs/algorithms/decomposition.md for why the glued trees are a forest.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Protocol

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.forest import Direction


@dataclass(frozen=True, eq=False)
class TreeRows:
    """q unit trees of a piece, a row each; n children.

    Parameters
    ----------
    parent : array of int32, shape (q, n)
        Child that each child gets the data from; -1 at the root.
    path : array of int32, shape (q, n)
        Number of the path from the parent, as the piece's trees count them; -1 at the root.
    first, last : arrays of int64, shape (q, n)
        Which capacity unit of the path's first link, and of its last link, the tree uses; -1 at the root.
    run : array of int64, shape (q,)
        This unit tree and the run - 1 following ones of the same root have equal parents and paths, and
        capacity units that rise by one from tree to tree.
    """

    parent: Int32Array
    path: Int32Array
    first: Int64Array
    last: Int64Array
    run: Int64Array


class PieceTrees(Protocol):
    """The trees of a piece, from a table or by a formula; all arrays in the piece's numbering."""

    @property
    def root_units(self) -> Int64Array:
        """Unit trees rooted at each child, native ones first, shape (n,)."""

    def rows(self, roots: Int32Array, units: Int64Array) -> TreeRows:
        """Unit tree `units[i]` of child `roots[i]`, for each i."""

    def owners(self, links: Int32Array, offsets: Int64Array) -> tuple[Int32Array, Int64Array]:
        """Root and unit of the tree that enters a child by a capacity unit of a link; -1 where none does.

        `links` are local links whose head is a child.
        """

    def path_links(self, numbers: Int32Array) -> tuple[Int64Array, Int32Array]:
        """Paths as offsets, shape (p + 1,), and the local links of all of them, in order."""


@dataclass(frozen=True, eq=False)
class Crossings:
    """Where data crosses the border of a piece: each row a run of capacity units of a crossing link.

    Parameters
    ----------
    link : array of int32, shape (c,)
        Local link that crosses the border; rows are sorted by (link, offset).
    offset : array of int64, shape (c,)
        First capacity unit of it.
    units : array of int64, shape (c,)
        Capacity units offset, ..., offset + units - 1.
    child : array of int32, shape (c,)
        Entrances: the child that they lead to. Exits: the child that supplies them.
    inner : array of int64, shape (c,)
        First capacity unit at the child's end of the path: of its last link (entrance) or first link (exit).
        Equals `offset` where the path is the crossing link alone.
    path : array of int32, shape (c,)
        From the crossing link to the child (entrance), or from the child to the crossing link (exit).
    root_unit : array of int64, shape (c,)
        Entrances: unit tree of the child that continues the first capacity unit, the next ones in order.
        Exits: zeros.
    path_offset, path_links : arrays of int64, int32
        Local links of each path.
    """

    link: Int32Array
    offset: Int64Array
    units: Int64Array
    child: Int32Array
    inner: Int64Array
    path: Int32Array
    root_unit: Int64Array
    path_offset: Int64Array
    path_links: Int32Array


@dataclass(frozen=True, eq=False)
class Piece:
    """One kind of piece. Its local links are numbered by rising link number of the fabric.

    Parameters
    ----------
    capacity : array of int64, shape (l,)
        Capacity units of each local link: those within the set and those that cross its border.
    native : array of int64, shape (n,)
        Unit trees of the whole forest that are rooted in each child.
    trees : PieceTrees
        ``trees.root_units[y] = native[y] +`` units of the entrances that lead to y.
    entrances, exits : Crossings
        Empty in the outermost piece.
    """

    capacity: Int64Array
    native: Int64Array
    trees: PieceTrees
    entrances: Crossings
    exits: Crossings


@dataclass(frozen=True, eq=False)
class Layer:
    """A laminar family of pieces that carries one forest.

    Parameters
    ----------
    pieces : tuple of Piece
        Kinds.
    kind : array of int32, shape (p,)
        Kind of each piece of the fabric; piece 0 is the outermost.
    outer : array of int32, shape (p,)
        The piece that a piece is a child of, smaller than its own number; -1 at piece 0.
    child_offset : array of int64, shape (p + 1,)
    children : array of int32
        Children of piece i are children[child_offset[i]:child_offset[i + 1]]: a rank, or ~j for piece j.
    link_offset : array of int64, shape (p + 1,)
    links : array of int32
        Links of the fabric of piece i, rising: links[link_offset[i]:link_offset[i + 1]].
    """

    pieces: tuple[Piece, ...]
    kind: Int32Array
    outer: Int32Array
    child_offset: Int64Array
    children: Int32Array
    link_offset: Int64Array
    links: Int32Array


@dataclass(frozen=True, eq=False)
class FactoredForest:
    """Spanning trees of N ranks as superposed layers.

    Parameters
    ----------
    direction : Direction
        BROADCAST: trees flow as the pieces say. REDUCE: pieces are those of the fabric with all links turned
        round; data flows from child to parent and takes every path backwards.
    root_multiplicity : array of int64, shape (N,)
        Unit trees of each rank over all layers: those of layer 0 first. A native unit tree i of a piece's
        child y is unit ``sum of native before y, plus i`` of that piece within the piece around it.
    layers : tuple of Layer
    """

    direction: Direction
    root_multiplicity: Int64Array
    layers: tuple[Layer, ...]

    @property
    def n_ranks(self) -> int:
        """Number of ranks N."""
        return len(self.root_multiplicity)

    @property
    def total_units(self) -> int:
        """R, the number of unit trees."""
        return int(self.root_multiplicity.sum())


@dataclass(frozen=True, eq=False)
class TableTrees:
    """Trees of a piece written out: a row is a run of unit trees with equal parents and paths.

    Parameters
    ----------
    root : array of int32, shape (s,)
        Rising.
    units : array of int64, shape (s,)
        Unit trees in each row; the rows of a root count its units 0, 1, ... in order.
    parent, path : arrays of int32, shape (s, n)
    first, last : arrays of int64, shape (s, n)
        Capacity unit of the row's first unit tree, see `TreeRows`.
    path_offset, path_table : arrays of int64, int32
        Local links of each path.
    """

    root: Int32Array
    units: Int64Array
    parent: Int32Array
    path: Int32Array
    first: Int64Array
    last: Int64Array
    path_offset: Int64Array
    path_table: Int32Array


@dataclass(frozen=True, eq=False)
class CirculantExchange:
    """Every child sends every unit tree straight to all others; n equal children.

    Exit unit i of child x leads to child x + d(i) (mod n), where it is entry unit i. With r native trees a
    child, in blocks of g: unit tree j, j = b g + a with a < g, takes exit units
    ``b g (n - 1) + (d - 1) g + a`` for d = 1 .. n - 1.

    Parameters
    ----------
    n_children : int
        n.
    native_units : int
        r, of each child.
    block : int
        g, a divisor of r.
    out_links, in_links : arrays of int32, shape (n, w)
        Links that leave and enter each child, in the order in which they hold its exit and entry units; a
        link may come several times, with different capacity units.
    out_first, in_first : arrays of int64, shape (n, w + 1)
        First exit (entry) unit that each column holds; the last one is r (n - 1). Columns may be empty.
    out_offset, in_offset : arrays of int64, shape (n, w)
        Capacity unit of the link that holds the column's first exit (entry) unit; the others follow in order.
    """

    n_children: int
    native_units: int
    block: int
    out_links: Int32Array
    in_links: Int32Array
    out_first: Int64Array
    in_first: Int64Array
    out_offset: Int64Array
    in_offset: Int64Array


@dataclass(frozen=True, eq=False)
class FactoredSchedule:
    """A collective as factored forests: in-trees, out-trees, or in-trees followed by out-trees (allreduce).

    Parameters
    ----------
    kind : CollectiveKind
    reduce, broadcast : FactoredForest, optional
        As in `treadle.schedules.forest.ForestSchedule`.
    """

    kind: CollectiveKind
    reduce: FactoredForest | None = None
    broadcast: FactoredForest | None = None

    def __post_init__(self) -> None:
        for needed, forest, direction in (
            (self.kind.reduces, self.reduce, Direction.REDUCE),
            (self.kind.broadcasts, self.broadcast, Direction.BROADCAST),
        ):
            if needed != (forest is not None):
                what = "is missing" if needed else "does not belong"
                raise ScheduleError(f"{self.kind}: the {direction} forest {what}")
            if forest is not None and forest.direction is not direction:
                raise ScheduleError(f"{self.kind}: the {direction} forest flows the wrong way")
        multiplicities = [forest.root_multiplicity for forest in self.forests]
        if not multiplicities:
            raise ScheduleError(f"{self.kind}: spanning trees do not serve it")
        if any(not np.array_equal(multiplicities[0], other) for other in multiplicities[1:]):
            raise ScheduleError(f"{self.kind}: in-trees and out-trees differ in trees per root")

    @property
    def forests(self) -> tuple[FactoredForest, ...]:
        """The forests in the order they run."""
        return tuple(forest for forest in (self.reduce, self.broadcast) if forest is not None)

    @property
    def n_ranks(self) -> int:
        """Number of ranks N."""
        return self.forests[0].n_ranks

    @property
    def root_multiplicity(self) -> Int64Array:
        """r(v), shape (N,)."""
        return self.forests[0].root_multiplicity

    @property
    def total_units(self) -> int:
        """R, the number of equal units that the data is cut into."""
        return self.forests[0].total_units

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FactoredSchedule):
            return NotImplemented
        return _is_same((self.kind, self.reduce, self.broadcast), (other.kind, other.reduce, other.broadcast))

    def __hash__(self) -> int:
        return hash((self.kind, self.n_ranks, self.total_units))


def _is_same(one: Any, other: Any) -> bool:
    """Whether values of this module are equal by content."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one, other))
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if is_dataclass(one):
        return all(_is_same(getattr(one, part.name), getattr(other, part.name)) for part in fields(one))
    return bool(one == other)
