"""Runs of equal keys in the rows of arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, Float64Array, Int64Array


def run_starts(*columns: NDArray[np.generic]) -> BoolArray:
    """Whether each row differs from the one before; the first one does."""
    starts = np.zeros(len(columns[0]), dtype=np.bool_)
    starts[:1] = True
    for column in columns:
        starts[1:] |= column[1:] != column[:-1]
    return starts


def sums_before(keys: NDArray[np.generic], values: Int64Array) -> Int64Array:
    """Sum of the values (not below 0) before each row in its run of equal keys."""
    before = np.cumsum(values) - values
    sums: Int64Array = before - np.maximum.accumulate(np.where(run_starts(keys), before, 0))
    return sums


def within(sizes: NDArray[np.integer]) -> Int64Array:
    """0, 1, ... in each of several runs, one run after another."""
    places: Int64Array = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return places


def positions_in_runs(keys: NDArray[np.generic]) -> Int64Array:
    """Number of each row in its run of equal keys, which rise."""
    return np.arange(len(keys)) - np.searchsorted(keys, keys)


def first_in_runs(
    keys: NDArray[np.integer], rank: NDArray[np.integer] | Float64Array, most: int
) -> Int64Array:
    """Return the `most` rows of least rank among those of each key, rising."""
    order = np.lexsort((rank, keys))
    return np.sort(order[positions_in_runs(keys[order]) < most])


def joined(keys: Sequence[Int64Array], low: Int64Array, high: Int64Array) -> list[Int64Array]:
    """Rows sorted by keys, the first of most weight, and ranges; those of equal keys that meet are one."""
    order = np.lexsort((low, *reversed(keys)))
    low, high, *sorted_keys = (column[order] for column in (low, high, *keys))
    begins = run_starts(*sorted_keys)
    begins[1:] |= low[1:] != high[:-1]
    return [*(key[begins] for key in sorted_keys), low[begins], high[np.roll(begins, -1)]]


def extremes(n: int, where: Int64Array, values: NDArray[np.signedinteger]) -> tuple[Int64Array, Int64Array]:
    """Least and greatest value of each of n places; n and -1 where there is none."""
    least, most = np.full(n, n, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    np.minimum.at(least, where, values)
    np.maximum.at(most, where, values)
    return least, most
