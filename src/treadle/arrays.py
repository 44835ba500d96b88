"""Read-only numpy arrays: the storage of every value type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from treadle.errors import ScheduleError, TreadleError

Int64Array = NDArray[np.int64]
Int32Array = NDArray[np.int32]
BoolArray = NDArray[np.bool_]
Float64Array = NDArray[np.float64]

_DTYPES: Mapping[str, type[np.generic]] = {
    "Int64Array": np.int64,
    "Int32Array": np.int32,
    "BoolArray": np.bool_,
}
"""Type of the values of each annotation."""


def frozen(values: ArrayLike, dtype: DTypeLike) -> NDArray[Any]:
    """Copy `values` into a new contiguous read-only array of `dtype`.

    Raises
    ------
    OverflowError
        If an integer type is given and a value is not an integer or out of range, since numpy would wrap it.
    """
    given = np.asarray(values)
    with np.errstate(invalid="ignore"):  # of a cast from nan; refused below
        array = np.array(given, dtype=dtype, order="C", copy=True)
    if array.dtype.kind in "iu" and not np.can_cast(given.dtype, array.dtype) and np.any(array != given):
        place = np.flatnonzero(array != given)[0]
        raise OverflowError(f"found {given.ravel()[place]}")
    array.setflags(write=False)
    return array


Shape = int | tuple[int, ...]
Where = Any
"""Positions in an array: numbers, or one row of numbers for each axis."""


def mask_of(shape: Shape, where: Where) -> BoolArray:
    """Return an array that is true at these positions."""
    found = np.zeros(shape, dtype=np.bool_)
    found[where] = True
    return found


def sums_of(shape: Shape, where: Where, values: ArrayLike, dtype: DTypeLike = np.int64) -> NDArray[Any]:
    """Return an array with the sum of the values of each position."""
    found = np.zeros(shape, dtype=dtype)
    np.add.at(found, where, values)
    return found


def positions_of(shape: Shape, where: Where, dtype: DTypeLike = np.int64) -> NDArray[Any]:
    """Return an array that numbers these positions in turn; -1 elsewhere."""
    found = np.full(shape, -1, dtype=dtype)
    found[where] = np.arange(found[where].size)
    return found


@dataclass(frozen=True, eq=False)
class FrozenArrays:
    """Base of frozen dataclasses over arrays: equal by content, but for fields that do not compare.

    Fields annotated `Int64Array`, `Int32Array` or `BoolArray` are its arrays.
    """

    def _freeze(
        self, what: str, *, axes: Mapping[str, int] | None = None, error: type[TreadleError] = ScheduleError
    ) -> None:
        """Make the arrays read-only and contiguous; those that are so already are adopted without a copy.

        Parameters
        ----------
        what : str
            Begins the messages of errors, unless it is empty.
        axes : mapping of field to int, optional
            Number of axes of those arrays that have not one.
        error : type of TreadleError
            Raised where values do not fit the type, or an array has another number of axes.
        """
        for part in fields(self):
            key, dtype = part.name, _DTYPES.get(str(part.type))
            if dtype is None:
                continue
            where = f"{what}: {key}" if what else key
            array, n_axes = getattr(self, key), 1 if axes is None else axes.get(key, 1)
            is_ready = isinstance(array, np.ndarray) and array.dtype == dtype and array.flags.c_contiguous
            if not is_ready or array.flags.writeable:
                try:
                    array = frozen(array, dtype)
                except (OverflowError, TypeError, ValueError) as wrong:
                    raise error(f"{where}: expected {np.dtype(dtype).name} ({wrong})") from None
                object.__setattr__(self, key, array)
            if array.ndim != n_axes and n_axes == 1:
                raise error(f"{where} must have one dimension")
            if array.ndim != n_axes:
                raise error(f"{where} has {array.ndim} axes, expected {n_axes}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self is other or all(
            np.array_equal(one, its) if isinstance(one, np.ndarray) else one == its
            for one, its in zip(self._compared(), other._compared(), strict=True)
        )

    def __hash__(self) -> int:
        values = self._compared()
        return hash(tuple(one.tobytes() if isinstance(one, np.ndarray) else one for one in values))

    def _compared(self) -> list[Any]:
        return [getattr(self, part.name) for part in fields(self) if part.compare]


def offsets_of(counts: ArrayLike) -> Int64Array:
    """Return the start of each run and the end of the last: 0, counts[0], counts[0] + counts[1], ...

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


def ranges_of(starts: Int64Array, counts: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the integers of several ranges one after another, and the range of each.

    Examples
    --------
    Starts (5, 9) and counts (2, 1) give the ranges (0, 0, 1) and the integers (5, 6, 9).
    """
    owners = np.repeat(np.arange(len(counts)), counts)
    return owners, np.arange(len(owners)) + (starts - offsets_of(counts)[:-1])[owners]


def check_offsets(what: str, key: str, offsets: Int64Array, rows: int, total: int, *, least: int = 0) -> None:
    """ScheduleError unless offsets rise from 0 to `total` in rows + 1 values, by `least` or more each."""
    if (
        not len(offsets)
        or len(offsets) != rows + 1
        or offsets[0] != 0
        or offsets[-1] != total
        or bool(np.any(offsets[:-1] > offsets[1:]))
        or bool(np.any(np.diff(offsets) < least))
    ):
        growth = f", by {least} or more each" if least else ""
        raise ScheduleError(f"{what}: {key} must rise from 0 to {total} in {max(rows, 0) + 1} values{growth}")


def exact_sum(values: Int64Array) -> int:
    """The sum of up to 2**31 integers, beyond 64 bits too."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def distinct_few(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.signedinteger]]:
    """Like ``numpy.unique(values, return_inverse=True)``, without sorting where few values differ."""
    found: list[Any] = []
    number = np.full(len(values), -1, dtype=np.int8)
    while len(found) < _FEW and len(values):
        first = int(np.argmax(number < 0))
        if number[first] >= 0:
            break
        found.append(values[first])
        number[values == found[-1]] = len(found) - 1
    if (number < 0).any():
        kinds, places = np.unique(values, return_inverse=True)
        return kinds, places.astype(np.int32)
    order = np.argsort(np.array(found, dtype=values.dtype))
    return np.array(found, dtype=values.dtype)[order], np.argsort(order).astype(np.int8)[number]


_FEW = 16
"""Different values up to which a pass for each is faster than a sort."""


def distinct(values: Int64Array) -> Int64Array:
    """The different values, rising; of long arrays by far faster than numpy's way by hashes."""
    ordered = np.sort(values)
    fresh = np.ones(len(ordered), dtype=bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    return ordered[fresh]


def distinct_rows(table: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Group equal rows of a table.

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
