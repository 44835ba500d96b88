"""Runs of numbers laid over each other, for the verifier of factored forests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, Int64Array, distinct


@dataclass(frozen=True, eq=False)
class Overlay:
    """Parts of runs that lie in runs of a table, arrays of one length.

    Parameters
    ----------
    query, skip : arrays of int64
        The run asked for, and where the part begins in it.
    units : array of int64
    row, place : arrays of int64
        The table's run, and where the part begins in it.
    """

    query: Int64Array
    skip: Int64Array
    units: Int64Array
    row: Int64Array
    place: Int64Array


class RunTable:
    """Disjoint runs first, ..., first + units - 1 of numbers under keys, in any order.

    A run is known by its place in these arrays, or by its name.
    """

    def __init__(
        self,
        key: Int64Array | Int32Array,
        first: Int64Array,
        units: Int64Array,
        names: Int64Array | None = None,
    ) -> None:
        self._order = np.lexsort((first, key))
        self._key, self._first = key[self._order].astype(np.int64), first[self._order]
        self._end = self._first + units[self._order]
        self._name = self._order if names is None else names[self._order]
        # (key, number) does not fit one integer, so numbers are replaced by their ranks
        self._levels = distinct(first)
        self._width = len(self._levels) + 1
        self._rank = self._key * self._width + np.searchsorted(self._levels, self._first, side="right")

    def overlay(self, key: Int64Array | Int32Array, first: Int64Array, units: Int64Array) -> Overlay:
        """Where runs meet those of the table, run by run."""
        wanted = key.astype(np.int64)
        begin = wanted * self._width + np.searchsorted(self._levels, first, side="right")
        end = wanted * self._width + np.searchsorted(self._levels, first + units)
        low = np.maximum(np.searchsorted(self._rank, begin, side="right") - 1, 0)
        count = np.maximum(np.searchsorted(self._rank, end, side="right") - low, 0)
        query = np.repeat(np.arange(len(wanted)), count)
        row = np.arange(len(query)) + np.repeat(low - (np.cumsum(count) - count), count)
        start = np.maximum(first[query], self._first[row])
        length = np.minimum((first + units)[query], self._end[row]) - start
        hit = np.flatnonzero((self._key[row] == wanted[query]) & (length > 0))
        query, row, start = query[hit], row[hit], start[hit]
        return Overlay(query, start - first[query], length[hit], self._name[row], start - self._first[row])
