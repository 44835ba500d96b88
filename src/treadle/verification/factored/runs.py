"""Runs of capacity units and of unit trees, and how they overlap, for the verifier of factored forests."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np

from treadle.arrays import Int32Array, Int64Array, distinct, ranges_of


class Runs(NamedTuple):
    """Runs of capacity units by which data enter or leave children, arrays of one length."""

    child: Int64Array
    link: Int64Array
    first: Int64Array
    units: Int64Array

    def merged(self) -> Runs:
        """Return the runs sorted by (child, link, first), with adjacent runs joined."""
        order = np.lexsort((self.first, self.link, self.child))
        child, link, first, units = (column[order] for column in self)
        joins = (child[1:] == child[:-1]) & (link[1:] == link[:-1]) & (first[1:] == first[:-1] + units[:-1])
        begins = np.flatnonzero(np.concatenate([[True], ~joins])[: len(child)])
        total = np.add.reduceat(units, begins) if len(begins) else units
        return Runs(child[begins], link[begins], first[begins], total)


NO_RUNS = Runs(*[np.zeros(0, dtype=np.int64)] * 4)


class Overlay(NamedTuple):
    """Parts of runs that lie in runs of a table, arrays of one length."""

    query: Int64Array
    """The run that was looked up."""
    skip: Int64Array
    """Position of the part in that run."""
    units: Int64Array
    row: Int64Array
    """The run of the table."""
    place: Int64Array
    """Position of the part in the run of the table."""

    def within(self, outer: Overlay) -> Overlay:
        """Return the parts as parts of the runs that `outer` looked up; its parts were looked up here."""
        return self._replace(query=outer.query[self.query], skip=outer.skip[self.query] + self.skip)


_Table = TypeVar("_Table", Runs, Overlay)


def joined(first: _Table, *others: _Table) -> _Table:
    """Return the rows of several tables one after another."""
    return type(first)(*map(np.concatenate, zip(first, *others, strict=True)))


class RunTable:
    """Disjoint runs first, ..., first + units - 1 of numbers under keys, in any order.

    The result of a lookup names a run by its position in these arrays, or by its name.
    """

    def __init__(
        self,
        key: Int64Array | Int32Array,
        first: Int64Array,
        units: Int64Array,
        names: Int64Array | None = None,
    ) -> None:
        order = np.lexsort((first, key))
        self._key, self._first = key[order].astype(np.int64), first[order]
        self._end = self._first + units[order]
        self._name = order if names is None else names[order]
        # (key, number) may not fit one integer, so numbers are replaced by their ranks.
        self._levels = distinct(first)
        self._width = len(self._levels) + 1
        self._rank = self._key * self._width + np.searchsorted(self._levels, self._first, side="right")

    def overlay(self, key: Int64Array | Int32Array, first: Int64Array, units: Int64Array) -> Overlay:
        """Return the parts of the given runs that lie in runs of the table, run by run."""
        wanted = key.astype(np.int64)
        begin = wanted * self._width + np.searchsorted(self._levels, first, side="right")
        end = wanted * self._width + np.searchsorted(self._levels, first + units)
        low = np.maximum(np.searchsorted(self._rank, begin, side="right") - 1, 0)
        count = np.maximum(np.searchsorted(self._rank, end, side="right") - low, 0)
        query, row = ranges_of(low, count)
        start = np.maximum(first[query], self._first[row])
        length = np.minimum((first + units)[query], self._end[row]) - start
        hit = np.flatnonzero((self._key[row] == wanted[query]) & (length > 0))
        query, row, start = query[hit], row[hit], start[hit]
        return Overlay(query, start - first[query], length[hit], self._name[row], start - self._first[row])
