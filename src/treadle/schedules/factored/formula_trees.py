"""Trees of an outermost piece by formula, of children that differ: which units leave and enter them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.factored.checks import (
    UNIT_LIMIT,
)
from treadle.schedules.factored.piece_trees import ColumnTrees, PieceRows, UnitRuns, holders


@dataclass(frozen=True, eq=False)
class FormulaTrees(ColumnTrees):
    """Which capacity units are the exit and entry units of n children, counted from 0 at each child.

    Parameters
    ----------
    out_links, in_links : arrays of int32, shape (n, w)
        Links that leave and enter each child, in the order in which they hold its exit and entry units; a
        link may come several times, with different capacity units.
    out_first, in_first : arrays of int64, shape (n, w + 1)
        First exit (entry) unit that each column holds; the last value of a row is their number. Columns may
        be empty.
    out_offset, in_offset : arrays of int64, shape (n, w)
        Capacity unit of the link that holds the column's first exit (entry) unit; the others follow in order.

    Notes
    -----
    Path number p n w + q is the p-th of `out_links`, row by row, followed by the q-th of `in_links`.
    """

    out_links: Int32Array
    in_links: Int32Array
    out_first: Int64Array
    in_first: Int64Array
    out_offset: Int64Array
    in_offset: Int64Array

    def _check_totals(self, what: str, side: str, expected: Int64Array) -> None:
        found: Int64Array = getattr(self, f"{side}_first")[:, -1]
        for child in np.flatnonzero(found != expected)[:1]:
            raise ScheduleError(
                f"{what}: child {child} has {found[child]} {'exit' if side == 'out' else 'entry'} units, "
                f"its trees take {expected[child]}"
            )

    @property
    def root_units(self) -> Int64Array:
        """Unit trees rooted at each child, shape (n,)."""
        raise NotImplementedError

    @property
    def depth(self) -> int:
        """Tree edges from a root to the farthest child, at most."""
        return 1

    @property
    def n_children(self) -> int:
        """Number of children n."""
        return len(self.out_links)

    @cached_property
    def _held(self) -> UnitRuns:
        """Columns that hold entry units, named by their places in `in_links`, row by row."""
        held = np.flatnonzero(np.diff(self.in_first, axis=1).ravel())
        return UnitRuns(self.in_links.ravel()[held], self.in_offset.ravel()[held], held)

    def _entry_units(
        self, links: Int32Array, offsets: Int64Array
    ) -> tuple[Int64Array, Int64Array, BoolArray]:
        """Child and entry unit that capacity units are, and whether they are any."""
        place, skip = self._held.find(links, offsets)
        child, column = np.divmod(np.maximum(place, 0), self.in_links.shape[1])
        unit = self.in_first[child, column] + skip
        return child, unit, (place >= 0) & (unit < self.in_first[child, column + 1])

    def _rows(self, parent: Int64Array, exits: Int64Array, entries: Int64Array, run: Int64Array) -> PieceRows:
        """Rows with these suppliers (-1 at the root), exit and entry units; `run` at most."""
        is_root = parent < 0
        child = np.arange(self.n_children)
        supplier = np.maximum(parent, 0)
        source, first, room_out = holders(self.out_first, self.out_offset, supplier, exits)
        sink, last, room_in = holders(self.in_first, self.in_offset, child, entries)
        path = (supplier * self.out_links.shape[1] + source) * self.in_links.size
        path += child * self.in_links.shape[1] + sink
        room = np.where(is_root, UNIT_LIMIT, np.minimum(room_out, room_in))
        return PieceRows(
            parent=parent.astype(np.int32),
            path=np.where(is_root, -1, path),
            first=np.where(is_root, -1, first),
            last=np.where(is_root, -1, last),
            run=np.minimum(room.min(axis=1), run),
        )

    def edges_into(
        self, roots: Int64Array, units: Int64Array, child: int
    ) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
        """Parent, path, first and last (as of `PieceRows`) of a child in unit trees that others root."""
        parent, exits, entries = self._units_into(roots, units, child)
        source, first, _ = holders(self.out_first, self.out_offset, parent, exits)
        sink, last, _ = holders(self.in_first, self.in_offset, np.full_like(parent, child), entries)
        path = (parent * self.out_links.shape[1] + source) * self.in_links.size
        return parent, path + child * self.in_links.shape[1] + sink, first, last

    def _units_into(
        self, roots: Int64Array, units: Int64Array, child: int
    ) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Parent, its exit unit and the child's entry unit."""
        raise NotImplementedError

    def trees_out_of(self, child: int) -> tuple[Int64Array, Int64Array]:
        """Root and number of the unit trees in which a child sends, and perhaps of some others."""
        mine = np.arange(self.root_units[child])
        return np.full(len(mine), child), mine
