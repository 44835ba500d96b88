"""Assign units of capacity to tree edges, each those that it prefers as far as they go."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import BoolArray, Int64Array


@dataclass(frozen=True)
class UnitPool:
    """Units that may be taken once each, by group and, within it, by kind.

    Parameters
    ----------
    group, kind : arrays of int64, shape (u,)
    run, place : arrays of int64, shape (u,)
        The run that each is of, and how many units of it come before.
    taken : array of bool, shape (u,)
    """

    group: Int64Array
    kind: Int64Array
    run: Int64Array
    place: Int64Array
    taken: BoolArray

    @staticmethod
    def of(group: Int64Array, kind: Int64Array, sizes: Int64Array, *, mixed: bool = False) -> UnitPool:
        """Return the units of runs, by group: of runs in order, or (`mixed`) of all runs of a group in
        turn."""
        run = np.repeat(np.arange(len(sizes)), sizes)
        place = np.arange(len(run)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        turn = (place + 0.5) / np.repeat(np.maximum(sizes, 1), sizes) if mixed else run
        order = np.lexsort((turn, group[run]))
        run, place = run[order], place[order]
        return UnitPool(group[run], kind[run], run, place, np.zeros(len(run), dtype=bool))

    def assign(self, group: Int64Array, kind: Int64Array) -> Int64Array:
        """Return a unit of its group for each item, one of its kind if there are enough.

        Parameters
        ----------
        group, kind : arrays of int64, shape (i,)
            At most as many items of a group as units of it that are left.
        """
        assigned = np.full(len(group), -1, dtype=np.int64)
        kinds = int(max(self.kind.max(initial=0), kind.max(initial=0))) + 1
        # first units of the same group and kind, then any of the group
        for items, units in ((group * kinds + kind, self.group * kinds + self.kind), (group, self.group)):
            late, free = np.flatnonzero(assigned < 0), np.flatnonzero(~self.taken)
            item, unit = _paired(items[late], units[free])
            assigned[late[item]] = free[unit]
            self.taken[free[unit]] = True
        assert assigned.min(initial=0) >= 0, "a group has fewer units than items"
        return assigned


def _paired(items: Int64Array, units: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Pair items and units of equal keys in order."""
    item_order, unit_order = np.argsort(items, kind="stable"), np.argsort(units, kind="stable")
    size = int(max(items.max(initial=0), units.max(initial=0))) + 1
    wanted, there = (np.bincount(keys, minlength=size) for keys in (items, units))
    rank = np.arange(len(items)) - np.repeat(np.cumsum(wanted) - wanted, wanted)
    good = rank < np.repeat(there, wanted)
    start = np.repeat(np.cumsum(there) - there, wanted)
    return item_order[good], unit_order[(start + rank)[good]]
