"""Trees of an outermost piece by formula, of children that differ: which units leave and enter them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.factored.subproblem_trees import ColumnTrees


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

    def trees_out_of(self, child: int) -> tuple[Int64Array, Int64Array]:
        """Root and number of the unit trees in which a child sends, and perhaps of some others."""
        mine = np.arange(self.root_units[child])
        return np.full(len(mine), child), mine
