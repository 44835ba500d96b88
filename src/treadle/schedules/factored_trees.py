"""The trees of one piece of a factored forest: written out in a table, or by a formula."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.factored_checks import (
    UNIT_LIMIT,
    check_length,
    check_offsets,
    check_range,
    check_sum,
    freeze,
)


@dataclass(frozen=True, eq=False)
class TreeRows:
    """q unit trees of a piece, a row each; n children.

    Parameters
    ----------
    parent : array of int32, shape (q, n)
        Child that each child gets the data from; -1 at the root.
    path : array of int64, shape (q, n)
        Number of the path from the parent, as the piece's trees count them; -1 at the root.
    first, last : arrays of int64, shape (q, n)
        Which capacity unit of the path's first link, and of its last link, the tree uses; -1 at the root.
    run : array of int64, shape (q,)
        This unit tree and the run - 1 following ones of the same root have equal parents and paths, and
        capacity units that rise by one from tree to tree.
    """

    parent: Int32Array
    path: Int64Array
    first: Int64Array
    last: Int64Array
    run: Int64Array


class PieceTrees(Protocol):
    """The trees of a piece, from a table or by a formula; all arrays in the piece's numbering."""

    @property
    def root_units(self) -> Int64Array:
        """Unit trees rooted at each child, native ones first, shape (n,)."""

    @property
    def n_paths(self) -> int:
        """Path numbers are smaller than this."""

    @property
    def link_bound(self) -> int:
        """Local links are smaller than this."""

    def rows(self, roots: Int64Array, units: Int64Array) -> TreeRows:
        """Unit tree `units[i]` of child `roots[i]`, for each i; ScheduleError if there is none."""

    def owners(self, links: Int32Array, offsets: Int64Array) -> tuple[Int32Array, Int64Array]:
        """Root and unit of the tree that enters a child by a capacity unit of a link; -1 where none does.

        `links` are local links whose head is a child.
        """

    def path_links(self, numbers: Int64Array) -> tuple[Int64Array, Int32Array]:
        """Paths as offsets, shape (p + 1,), and the local links of all of them, in order."""


def ragged(starts: Int64Array, lengths: Int64Array) -> Int64Array:
    """starts[0], starts[0] + 1, ... for lengths[0] values, then the same for the next one."""
    begins = np.cumsum(lengths) - lengths
    numbers: Int64Array = np.arange(int(lengths.sum())) + np.repeat(starts - begins, lengths)
    return numbers


def _check_roots(what: str, roots: Int64Array, units: Int64Array, root_units: Int64Array) -> None:
    check_range(what, "roots", roots, 0, len(root_units))
    wrong = np.flatnonzero((units < 0) | (units >= root_units[roots]))
    if wrong.size:
        root, unit = roots[wrong[0]], units[wrong[0]]
        raise ScheduleError(f"{what}: child {root} has {root_units[root]} unit trees, none of number {unit}")


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
        -1 at the root.
    first, last : arrays of int64, shape (s, n)
        Capacity unit of the row's first unit tree, see `TreeRows`.
    path_offset, path_table : arrays of int64, int32
        Local links of each path; none is empty.
    """

    root: Int32Array
    units: Int64Array
    parent: Int32Array
    path: Int32Array
    first: Int64Array
    last: Int64Array
    path_offset: Int64Array
    path_table: Int32Array

    def __post_init__(self) -> None:
        what = "table of trees"
        freeze(
            self,
            what,
            {
                "root": (np.int32, 1),
                "units": (np.int64, 1),
                "parent": (np.int32, 2),
                "path": (np.int32, 2),
                "first": (np.int64, 2),
                "last": (np.int64, 2),
                "path_offset": (np.int64, 1),
                "path_table": (np.int32, 1),
            },
        )
        s, n = self.parent.shape
        for key in ("root", "units", "path", "first", "last"):
            check_length(what, key, getattr(self, key), s)
        for key in ("path", "first", "last"):
            if getattr(self, key).shape != (s, n):
                raise ScheduleError(f"{what}: {key} has shape {getattr(self, key).shape}, expected {(s, n)}")
        check_range(what, "root", self.root, 0, n)
        if np.any(self.root[:-1] > self.root[1:]):
            raise ScheduleError(f"{what}: roots must rise from row to row")
        check_range(what, "units", self.units, 1, UNIT_LIMIT)
        check_sum(what, "units", self.units)
        n_paths = len(self.path_offset) - 1
        check_offsets(what, "path_offset", self.path_offset, n_paths, len(self.path_table), least=1)
        check_range(what, "path_table", self.path_table, 0, 2**31 - 1)
        is_root = np.arange(n) == self.root[:, None]
        bounds = (("parent", n), ("path", n_paths), ("first", UNIT_LIMIT), ("last", UNIT_LIMIT))
        for key, high in bounds:
            check_range(what, key, getattr(self, key), -1, high)
            if not np.array_equal(getattr(self, key) < 0, is_root):
                raise ScheduleError(f"{what}: {key} must be -1 at the root, and only there")

    @cached_property
    def root_units(self) -> Int64Array:
        """Unit trees rooted at each child, shape (n,)."""
        total = np.zeros(self.parent.shape[1], dtype=np.int64)
        np.add.at(total, self.root, self.units)
        return total

    @property
    def n_paths(self) -> int:
        """Number of paths."""
        return len(self.path_offset) - 1

    @cached_property
    def link_bound(self) -> int:
        """One more than the greatest local link."""
        return int(self.path_table.max(initial=-1)) + 1

    @cached_property
    def _row_unit(self) -> Int64Array:
        """Unit trees before each row, all roots together."""
        return np.cumsum(self.units) - self.units

    @cached_property
    def _root_unit(self) -> Int64Array:
        """Unit trees before those of each root."""
        return np.cumsum(self.root_units) - self.root_units

    def rows(self, roots: Int64Array, units: Int64Array) -> TreeRows:
        """See `PieceTrees.rows`."""
        _check_roots("table of trees", roots, units, self.root_units)
        number = self._root_unit[roots] + units
        row = np.searchsorted(self._row_unit, number, side="right") - 1
        skip = number - self._row_unit[row]
        parent = self.parent[row]
        step = np.where(parent >= 0, skip[:, None], 0)
        return TreeRows(
            parent=parent,
            path=self.path[row].astype(np.int64),
            first=self.first[row] + step,
            last=self.last[row] + step,
            run=self.units[row] - skip,
        )

    @cached_property
    def _entries(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Columns of `in_links` that hold units, by link and offset: their places row by row, and both."""
        held = np.flatnonzero(np.diff(self.in_first, axis=1).ravel())
        link, offset = self.in_links.ravel()[held].astype(np.int64), self.in_offset.ravel()[held]
        order = np.lexsort((offset, link))
        return held[order], link[order], offset[order]

    def owners(self, links: Int32Array, offsets: Int64Array) -> tuple[Int32Array, Int64Array]:
        """See `PieceTrees.owners`."""
        n, g, w = self.n_children, self.block, self.out_links.shape[1]
        place, known, known_offset = self._entries
        values = np.unique(known_offset)
        keys = known * len(values) + np.searchsorted(values, known_offset)
        wanted = np.asarray(links, dtype=np.int64) * len(values)
        wanted = wanted + np.searchsorted(values, offsets, side="right") - 1
        at = np.maximum(np.searchsorted(keys, wanted, side="right") - 1, 0)
        child, column = np.divmod(place[at], w)
        start, within = self.in_first[child, column], offsets - known_offset[at]
        unit = start + within
        is_owned = (known[at] == links) & (within >= 0) & (unit < self.in_first[child, column + 1])
        block, rest = np.divmod(unit, g * (n - 1))
        distance, within = np.divmod(rest, g)
        root = np.where(is_owned, (child - distance - 1) % n, -1).astype(np.int32)
        return root, np.where(is_owned, block * g + within, -1)

    def path_links(self, numbers: Int64Array) -> tuple[Int64Array, Int32Array]:
        """See `PieceTrees.path_links`."""
        source, sink = np.divmod(numbers, self.in_links.size)
        links = np.stack([self.out_links.ravel()[source], self.in_links.ravel()[sink]], axis=1)
        return 2 * np.arange(len(numbers) + 1), links.ravel()


def _holders(
    first: Int64Array, offset: Int64Array, row: Int64Array, unit: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Column of the row that holds each unit, its capacity unit there, units of the column from there on."""
    column = np.zeros(unit.shape, dtype=np.int64)
    for later in range(1, first.shape[1] - 1):
        column += unit >= first[row, later]
    return column, unit - first[row, column] + offset[row, column], first[row, column + 1] - unit
