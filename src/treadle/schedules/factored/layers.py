"""Components of factored forests: laminar families of node sets, and their subproblems.

Equal subproblems are stored once, as a `Subproblem`; a `Layer` says where each of them is in the fabric.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.arrays import FrozenArrays, Int32Array, Int64Array, check_offsets
from treadle.errors import ScheduleError
from treadle.schedules.checks import UNIT_LIMIT, check_length, check_range, check_sum
from treadle.schedules.factored.subproblem_trees import SubproblemTrees

_MAX_NESTING = 64
"""Deepest nesting: every level costs a pass over the subproblems, and files may be hostile."""


@dataclass(frozen=True, eq=False)
class Crossings(FrozenArrays):
    """Cut links of a subproblem: each row is a run of capacity units of a link that crosses its boundary.

    Parameters
    ----------
    link : array of int32, shape (c,)
        Local link that crosses the boundary; rows are sorted by (link, offset).
    offset : array of int64, shape (c,)
        Its first capacity unit.
    units : array of int64, shape (c,)
        Capacity units offset, ..., offset + units - 1.
    child : array of int32, shape (c,)
        `entrances`: the child that they lead to. `exits`: the child that supplies them.
    inner : array of int64, shape (c,)
        First capacity unit at the child's end of the path: of its last link (`entrances`) or first link
        (`exits`). Equals `offset` where the path is the crossing link alone.
    path : array of int32, shape (c,)
        From the crossing link to the child (`entrances`), or from the child to the crossing link (`exits`).
    root_unit : array of int64, shape (c,)
        `entrances`: unit tree of the child that continues the first capacity unit, the next ones in order.
        `exits`: zeros.
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
    """Return the cut links of the outermost subproblem: none."""
    narrow, wide = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
    start = np.zeros(1, dtype=np.int64)
    return Crossings(narrow, wide, wide, narrow, wide, narrow, wide, start, narrow)


@dataclass(frozen=True, eq=False)
class Subproblem(FrozenArrays):
    """An equivalence class of subproblems; local links are numbered in the order of the fabric's links.

    Parameters
    ----------
    capacity : array of int64, shape (l,)
        Capacity units of each local link: those within the set and those that cross its boundary.
    native : array of int64, shape (n,)
        Unit trees of the entire forest that are rooted in each child.
    trees : SubproblemTrees
        ``trees.root_units[y] = native[y] +`` units of the `entrances` that lead to y.
    `entrances`, `exits` : Crossings
        Cut links that lead into and out of the set; none in the outermost subproblem.
    """

    capacity: Int64Array
    native: Int64Array
    trees: SubproblemTrees
    entrances: Crossings
    exits: Crossings

    def __post_init__(self) -> None:
        self._freeze("subproblem")
        for key in ("capacity", "native"):
            check_range("subproblem", key, getattr(self, key), 0, UNIT_LIMIT)
            check_sum("subproblem", key, getattr(self, key))
        n_links, n = len(self.capacity), len(self.trees.root_units)
        if len(self.native) != n or n < 1:
            raise ScheduleError(
                f"subproblem: native has {len(self.native)} rows, its trees span {n} children"
            )
        if self.trees.link_bound > n_links:
            raise ScheduleError(f"subproblem: trees use local link {self.trees.link_bound - 1} of {n_links}")
        for what, rows in (("entrances", self.entrances), ("exits", self.exits)):
            check_range(f"subproblem: {what}", "link", rows.link, 0, n_links)
            check_range(f"subproblem: {what}", "path_links", rows.path_links, 0, n_links)
            check_range(f"subproblem: {what}", "child", rows.child, 0, n)
            wrong = np.flatnonzero(rows.offset + rows.units > self.capacity[rows.link])
            if wrong.size:
                link = rows.link[wrong[0]]
                raise ScheduleError(
                    f"subproblem: {what}: units {rows.offset[wrong[0]]} to "
                    f"{rows.offset[wrong[0]] + rows.units[wrong[0]] - 1} of local link {link}, which has "
                    f"{self.capacity[link]}"
                )

    @property
    def n_children(self) -> int:
        """Number of children n."""
        return len(self.native)


@dataclass(frozen=True, eq=False)
class Layer(FrozenArrays):
    """A component of a factored forest: a laminar family of subproblems that carries one forest.

    Parameters
    ----------
    `pieces` : tuple of `Subproblem`
        Equivalence classes.
    kind : array of int32, shape (p,)
        Class of each subproblem of the fabric; subproblem 0 is the outermost.
    outer : array of int32, shape (p,)
        Subproblem of which each one is a child, smaller than its own number; -1 at subproblem 0.
    child_offset : array of int64, shape (p + 1,)
    children : array of int32
        Children of subproblem i are children[child_offset[i]:child_offset[i + 1]]: a rank, or ~j for
        subproblem j.
    link_offset : array of int64, shape (p + 1,)
    links : array of int32
        Links of the fabric of subproblem i, rising: links[link_offset[i]:link_offset[i + 1]].
    """

    pieces: tuple[Subproblem, ...]
    kind: Int32Array
    outer: Int32Array
    child_offset: Int64Array
    children: Int32Array
    link_offset: Int64Array
    links: Int32Array

    def __post_init__(self) -> None:
        what = "component"
        object.__setattr__(self, "pieces", tuple(self.pieces))
        self._freeze(what)
        p = len(self.kind)
        if not p:
            raise ScheduleError(f"{what}: no subproblem; expected the outermost one, number 0")
        check_range(what, "kind", self.kind, 0, len(self.pieces))
        check_length(what, "outer", self.outer, p)
        if self.outer[0] != -1 or np.any(self.outer[1:] < 0) or np.any(self.outer >= np.arange(p)):
            raise ScheduleError(f"{what}: outer must be -1 at subproblem 0, and a smaller number elsewhere")
        above = self.outer
        for _ in range(_MAX_NESTING):
            above = np.where(above >= 0, self.outer[above], -1)
        if above.max() >= 0:
            raise ScheduleError(f"{what}: subproblems are nested more than {_MAX_NESTING} deep")
        check_offsets(what, "child_offset", self.child_offset, p, len(self.children))
        check_offsets(what, "link_offset", self.link_offset, p, len(self.links))
        self._check_sizes("children", self.child_offset, [piece.n_children for piece in self.pieces])
        self._check_sizes("links", self.link_offset, [len(piece.capacity) for piece in self.pieces])
        check_range(what, "links", self.links, 0, 2**31 - 1)
        piece = np.repeat(np.arange(p), np.diff(self.link_offset))
        if np.any((piece[:-1] == piece[1:]) & (self.links[:-1] >= self.links[1:])):
            raise ScheduleError(f"{what}: links of a subproblem must rise")
        check_range(what, "children", self.children, -p, 2**31 - 1)
        inner = self.children < 0
        piece = np.repeat(np.arange(p), np.diff(self.child_offset))[inner]
        child = ~self.children[inner]
        if not np.array_equal(np.sort(child), np.arange(1, p)) or np.any(self.outer[child] != piece):
            raise ScheduleError(
                f"{what}: every subproblem but 0 must be a child of its outer subproblem, once"
            )
        ranks = np.sort(self.children[~inner])
        if np.any(ranks[:-1] == ranks[1:]):
            raise ScheduleError(f"{what}: a rank is a child of two subproblems")
        counts = np.bincount(self.kind, minlength=len(self.pieces)).tolist()
        totals = [int(piece.capacity.sum()) for piece in self.pieces]
        if sum(count * total for count, total in zip(counts, totals, strict=True)) >= UNIT_LIMIT:
            raise ScheduleError(f"{what}: capacity units sum to 2**61 or more; use a smaller number of trees")

    def _check_sizes(self, key: str, offsets: Int64Array, sizes: Sequence[int]) -> None:
        expected = np.array(sizes, dtype=np.int64)[self.kind]
        for piece in np.flatnonzero(np.diff(offsets) != expected)[:1]:
            raise ScheduleError(
                f"component: subproblem {piece} has {offsets[piece + 1] - offsets[piece]} {key}, its class "
                f"{expected[piece]}"
            )

    @property
    def n_subproblems(self) -> int:
        """Number of subproblems p."""
        return len(self.kind)
