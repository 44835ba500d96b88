"""Pieces of factored forests and the laminar families of node sets that they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.arrays import FrozenArrays, Int32Array, Int64Array, check_offsets
from treadle.errors import ScheduleError
from treadle.schedules.factored.checks import (
    UNIT_LIMIT,
    check_length,
    check_range,
    check_sum,
)
from treadle.schedules.factored.subproblem_trees import SubproblemTrees

_MAX_NESTING = 64  # every level costs a pass over the pieces, and files are hostile


@dataclass(frozen=True, eq=False)
class Crossings(FrozenArrays):
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
        Local links of each path; none is empty.
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

    def __post_init__(self) -> None:
        what = "crossings"
        self._freeze(what)
        n_paths = len(self.path_offset) - 1
        check_offsets(what, "path_offset", self.path_offset, n_paths, len(self.path_links), least=1)
        bounds = (
            ("link", 0, 2**31 - 1),
            ("offset", 0, UNIT_LIMIT),
            ("units", 1, UNIT_LIMIT),
            ("child", 0, 2**31 - 1),
            ("inner", 0, UNIT_LIMIT),
            ("path", 0, n_paths),
            ("root_unit", 0, UNIT_LIMIT),
        )
        for key, low, high in bounds:
            check_length(what, key, getattr(self, key), len(self.link))
            check_range(what, key, getattr(self, key), low, high)
        check_range(what, "path_links", self.path_links, 0, 2**31 - 1)
        step = np.diff(self.link.astype(np.int64))
        if np.any((step < 0) | ((step == 0) & (self.offset[:-1] > self.offset[1:]))):
            raise ScheduleError(f"{what}: rows must be sorted by (link, offset)")


def no_crossings() -> Crossings:
    """The border of the outermost piece: there is none."""
    narrow, wide = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
    start = np.zeros(1, dtype=np.int64)
    return Crossings(narrow, wide, wide, narrow, wide, narrow, wide, start, narrow)


@dataclass(frozen=True, eq=False)
class Subproblem(FrozenArrays):
    """One kind of piece. Its local links are numbered by rising link number of the fabric.

    Parameters
    ----------
    capacity : array of int64, shape (l,)
        Capacity units of each local link: those within the set and those that cross its border.
    native : array of int64, shape (n,)
        Unit trees of the whole forest that are rooted in each child.
    trees : SubproblemTrees
        ``trees.root_units[y] = native[y] +`` units of the entrances that lead to y.
    entrances, exits : Crossings
        Empty in the outermost piece.
    """

    capacity: Int64Array
    native: Int64Array
    trees: SubproblemTrees
    entrances: Crossings
    exits: Crossings

    def __post_init__(self) -> None:
        self._freeze("piece")
        for key in ("capacity", "native"):
            check_range("piece", key, getattr(self, key), 0, UNIT_LIMIT)
            check_sum("piece", key, getattr(self, key))
        n_links, n = len(self.capacity), len(self.trees.root_units)
        if len(self.native) != n or n < 1:
            raise ScheduleError(f"piece: native has {len(self.native)} rows, its trees span {n} children")
        if self.trees.link_bound > n_links:
            raise ScheduleError(f"piece: trees use local link {self.trees.link_bound - 1} of {n_links}")
        for what, rows in (("entrances", self.entrances), ("exits", self.exits)):
            check_range(f"piece: {what}", "link", rows.link, 0, n_links)
            check_range(f"piece: {what}", "path_links", rows.path_links, 0, n_links)
            check_range(f"piece: {what}", "child", rows.child, 0, n)
            wrong = np.flatnonzero(rows.offset + rows.units > self.capacity[rows.link])
            if wrong.size:
                link = rows.link[wrong[0]]
                raise ScheduleError(
                    f"piece: {what}: units {rows.offset[wrong[0]]} to "
                    f"{rows.offset[wrong[0]] + rows.units[wrong[0]] - 1} of local link {link}, which has "
                    f"{self.capacity[link]}"
                )

    @property
    def n_children(self) -> int:
        """Number of children n."""
        return len(self.native)


@dataclass(frozen=True, eq=False)
class Layer(FrozenArrays):
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

    pieces: tuple[Subproblem, ...]
    kind: Int32Array
    outer: Int32Array
    child_offset: Int64Array
    children: Int32Array
    link_offset: Int64Array
    links: Int32Array

    def __post_init__(self) -> None:
        what = "layer"
        object.__setattr__(self, "pieces", tuple(self.pieces))
        self._freeze(what)
        p = len(self.kind)
        if not p:
            raise ScheduleError(f"{what}: there is no piece; piece 0 is the outermost")
        check_range(what, "kind", self.kind, 0, len(self.pieces))
        check_length(what, "outer", self.outer, p)
        if self.outer[0] != -1 or np.any(self.outer[1:] < 0) or np.any(self.outer >= np.arange(p)):
            raise ScheduleError(f"{what}: outer must be -1 at piece 0, and a smaller piece elsewhere")
        above = self.outer
        for _ in range(_MAX_NESTING):
            above = np.where(above >= 0, self.outer[above], -1)
        if above.max() >= 0:
            raise ScheduleError(f"{what}: pieces are nested more than {_MAX_NESTING} deep")
        check_offsets(what, "child_offset", self.child_offset, p, len(self.children))
        check_offsets(what, "link_offset", self.link_offset, p, len(self.links))
        self._check_sizes("children", self.child_offset, [piece.n_children for piece in self.pieces])
        self._check_sizes("links", self.link_offset, [len(piece.capacity) for piece in self.pieces])
        self._check_children()
        check_range(what, "links", self.links, 0, 2**31 - 1)
        is_joint = np.ones(max(len(self.links) - 1, 0), dtype=bool)
        borders = self.link_offset[1:-1]
        is_joint[borders[(borders > 0) & (borders < len(self.links))] - 1] = False
        if np.any(is_joint & (self.links[:-1] >= self.links[1:])):
            raise ScheduleError(f"{what}: links of a piece must rise")
        counts = np.bincount(self.kind, minlength=len(self.pieces)).tolist()
        totals = [int(piece.capacity.sum()) for piece in self.pieces]
        if sum(count * total for count, total in zip(counts, totals, strict=True)) >= UNIT_LIMIT:
            raise ScheduleError(f"{what}: capacity units sum to 2**61 or more; use fewer trees")

    def _check_sizes(self, key: str, offsets: Int64Array, sizes: Sequence[int]) -> None:
        expected = np.array(sizes, dtype=np.int64)[self.kind]
        for piece in np.flatnonzero(np.diff(offsets) != expected)[:1]:
            raise ScheduleError(
                f"layer: piece {piece} has {offsets[piece + 1] - offsets[piece]} {key}, its kind "
                f"{expected[piece]}"
            )

    def _check_children(self) -> None:
        p = len(self.kind)
        check_range("layer", "children", self.children, -p, 2**31 - 1)
        place = np.flatnonzero(self.children < 0)
        inner = ~self.children[place]
        around = np.repeat(np.arange(p), np.diff(self.child_offset))[place]
        if not np.array_equal(np.sort(inner), np.arange(1, p)) or np.any(self.outer[inner] != around):
            raise ScheduleError("layer: every piece but piece 0 must be a child of its outer piece, once")
        ranks = np.sort(self.children[self.children >= 0])
        if np.any(ranks[:-1] == ranks[1:]):
            raise ScheduleError("layer: a rank is a child of two pieces")

    @property
    def n_subproblems(self) -> int:
        """Number of pieces p."""
        return len(self.kind)
