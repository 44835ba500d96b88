"""Read-only numpy arrays: the storage of every value type."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

Int64Array = NDArray[np.int64]
Int32Array = NDArray[np.int32]
BoolArray = NDArray[np.bool_]


def frozen(values: ArrayLike, dtype: DTypeLike) -> NDArray[Any]:
    """Copy `values` into a new contiguous read-only array of `dtype`.

    Raises
    ------
    OverflowError
        If integers are asked for and a value is none, or out of range: numpy would wrap or cut it silently.
    """
    given = np.asarray(values)
    with np.errstate(invalid="ignore"):  # of a cast from nan; refused below
        array = np.array(given, dtype=dtype, order="C", copy=True)
    if array.dtype.kind in "iu" and not np.can_cast(given.dtype, array.dtype) and np.any(array != given):
        place = np.flatnonzero(array != given)[0]
        raise OverflowError(f"found {given.ravel()[place]}")
    array.setflags(write=False)
    return array


def offsets_of(counts: ArrayLike) -> Int64Array:
    """Where each run begins, and the end of the last: 0, counts[0], counts[0] + counts[1], ...

    Parameters
    ----------
    counts : array of integers, shape (..., n)
        Of more than one axis: the runs of each row.

    Returns
    -------
    array of int64, shape (..., n + 1)
        ``offsets[i]:offsets[i + 1]`` is run i.
    """
    lengths = np.asarray(counts, dtype=np.int64)
    offsets = np.zeros((*lengths.shape[:-1], lengths.shape[-1] + 1), dtype=np.int64)
    np.cumsum(lengths, axis=-1, out=offsets[..., 1:])
    return offsets


def exact_sum(values: Int64Array) -> int:
    """The sum of up to 2**31 integers, beyond 64 bits too."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def distinct(values: Int64Array) -> Int64Array:
    """The different values, rising; of long arrays by far faster than numpy's way by hashes."""
    ordered = np.sort(values)
    fresh = np.ones(len(ordered), dtype=bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    return ordered[fresh]


def distinct_rows(table: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Which rows of a table are equal.

    Parameters
    ----------
    table : array of int64, shape (r, c)

    Returns
    -------
    first : array of int64, shape (d,)
        The first row of each value, rising.
    kind : array of int64, shape (r,)
        Place in `first` of each row's value.

    Notes
    -----
    Made for tables in which most rows equal the one before: only the others are looked up.
    """
    fresh = np.ones(len(table), dtype=bool)
    fresh[1:] = (table[1:] != table[:-1]).any(axis=1)
    starts = np.flatnonzero(fresh)
    known: dict[bytes, int] = {}
    kinds = [known.setdefault(row.tobytes(), len(known)) for row in table[starts]]
    number = np.array(kinds, dtype=np.int64)
    _, first = np.unique(number, return_index=True)
    return starts[first], number[np.cumsum(fresh) - 1]
