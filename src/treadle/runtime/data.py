"""Test data of the runtimes: element types, reductions, inputs with a known exact result, and the check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.errors import MissingDependencyError

PERIODS = (65521, 8191, 1021)
"""Periods of inputs, smaller for many ranks; primes, so that no usual chunk boundary is a multiple."""

_PATTERN_ELEMENTS = 2**22


class ElementType(StrEnum):
    """Types of the buffers' elements, spelt as on the command line.

    Examples
    --------
    >>> from treadle import planning
    >>> [one.value for one in planning.ElementType]
    ['float32', 'float16', 'bfloat16', 'int32', 'int64']
    """

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    INT32 = "int32"
    INT64 = "int64"

    @property
    def n_bytes(self) -> int:
        """Bytes of one element."""
        return _BYTES_AND_LIMIT[self][0]

    @property
    def exact_limit(self) -> int:
        """All integers of at most this magnitude are represented exactly."""
        return _BYTES_AND_LIMIT[self][1]


_BYTES_AND_LIMIT = {
    ElementType.FLOAT32: (4, 2**24),
    ElementType.FLOAT16: (2, 2**11),
    ElementType.BFLOAT16: (2, 2**8),
    ElementType.INT32: (4, 2**31 - 1),
    ElementType.INT64: (8, 2**63 - 1),
}


class Reduction(StrEnum):
    """Reduction of contributions, spelt as on the command line.

    AVG is the sum divided by the number of ranks at the end; of integers, the floor of that quotient.

    Examples
    --------
    >>> from treadle import planning
    >>> [one.value for one in planning.Reduction]
    ['sum', 'max', 'min', 'avg']
    """

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    AVG = "avg"

    @property
    def ufunc(self) -> np.ufunc:
        """The associative part: what a receive-and-reduce applies."""
        if self is Reduction.MAX:
            return np.maximum
        return np.minimum if self is Reduction.MIN else np.add


def numpy_dtype(element: ElementType) -> np.dtype[Any]:
    """The numpy dtype of an element type.

    Raises
    ------
    MissingDependencyError
        For bfloat16 without the package ml_dtypes.
    """
    if element is not ElementType.BFLOAT16:
        return np.dtype(element.value)
    try:
        import ml_dtypes
    except ImportError:
        raise MissingDependencyError(
            "bfloat16 needs the package ml_dtypes, which is not installed: pip install 'treadle[bfloat16]'"
        ) from None
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype


def finish_average(values: NDArray[Any], n_ranks: int) -> None:
    """Turn sums into averages in place: correctly rounded, or the floor for integers."""
    if np.issubdtype(values.dtype, np.integer):
        np.floor_divide(values, n_ranks, out=values)
    elif values.dtype == np.float32:
        np.divide(values, np.float32(n_ranks), out=values)
    else:
        # N need not be representable in 2 bytes; 24 bits hold it and make the second rounding harmless
        values[...] = (values.astype(np.float32) / np.float32(n_ranks)).astype(values.dtype)


def reduced(inputs: NDArray[Any], reduction: Reduction) -> NDArray[Any]:
    """Combine the rows of `inputs`, one per rank, in 64-bit arithmetic.

    Parameters
    ----------
    inputs : array, shape (N, count)
    reduction : Reduction

    Returns
    -------
    array of the same dtype, shape (count,)
    """
    wide = inputs.astype(np.int64 if np.issubdtype(inputs.dtype, np.integer) else np.float64)
    if reduction is Reduction.AVG:
        total = wide.sum(axis=0)
        mean = total // len(inputs) if total.dtype == np.int64 else total / len(inputs)
        return np.asarray(mean).astype(inputs.dtype)
    return np.asarray(reduction.ufunc.reduce(wide, axis=0)).astype(inputs.dtype)


@dataclass(frozen=True, eq=False)
class Pattern:
    """Inputs of all ranks as functions of the element's index in the collective's whole buffer.

    Element g of rank r is values[r, g % p]. The result of a reduction then repeats with the same
    period, so that inputs are made and outputs checked at the speed of memory, at any count.

    Parameters
    ----------
    values : array, shape (N, p)
        p is one of PERIODS, or the count where that is less (but at least 1).
    result : array, shape (p,)
        The reduction of the rows.
    """

    values: NDArray[Any]
    result: NDArray[Any]

    def fill(self, rank: int, buffer: NDArray[Any], *, start: int) -> None:
        """Write rank's input into `buffer`, whose first element has index `start`."""
        for at, piece in _pieces(self.values[rank], len(buffer), start):
            buffer[at : at + len(piece)] = piece

    def count_wrong_result(self, buffer: NDArray[Any], *, start: int) -> int:
        """Elements of `buffer`, from index `start` on, that differ from the reduction of all ranks."""
        return _count_wrong(self.result, buffer, start)

    def count_wrong_copy(self, rank: int, buffer: NDArray[Any], *, start: int) -> int:
        """Elements of `buffer`, from index `start` on, that differ from rank's input."""
        return _count_wrong(self.values[rank], buffer, start)


def make_pattern(
    n_ranks: int, count: int, *, element: ElementType, reduction: Reduction, reduces: bool, seed: int
) -> Pattern:
    """Deterministic inputs whose exact result is representable, whatever the order of the additions.

    Parameters
    ----------
    n_ranks, count : int
        Ranks, and elements of the collective's whole buffer.
    element : ElementType
    reduction : Reduction
    reduces : bool
        False for allgather and broadcast: values then use the whole exact range.
    seed : int

    Notes
    -----
    Values are integers other than 0. For sums the magnitudes of an element's N values add up to at most the
    type's exact limit (float16 2048, bfloat16 256, float32 2**24), so that every partial sum is exact and
    results are compared for equality, not within a tolerance. Where N exceeds the limit, each element has as
    many ranks with values +-1 as the limit allows, another set for each element, and 0 at the rest.
    """
    affordable = (period for period in PERIODS if period * n_ranks <= _PATTERN_ELEMENTS)
    period = max(1, min(count, next(affordable, PERIODS[-1])))
    limit = element.exact_limit
    adds = reduces and reduction in (Reduction.SUM, Reduction.AVG)
    magnitude = max(1, limit // n_ranks) if adds else limit
    generator = np.random.default_rng(seed)
    drawn = generator.integers(1, magnitude, size=(n_ranks, period), endpoint=True, dtype=np.int64)
    drawn *= generator.integers(0, 2, size=(n_ranks, period), dtype=np.int64) * 2 - 1
    if adds and n_ranks > limit:
        turn = (np.arange(n_ranks)[:, None] + np.arange(period)[None, :]) % n_ranks
        drawn[turn >= limit] = 0
    values = drawn.astype(numpy_dtype(element))
    return Pattern(values, reduced(values, reduction) if reduces else values[0])


def poison(buffer: NDArray[Any]) -> None:
    """Fill with what no result equals (NaN, or the least integer), so that an element never written shows."""
    integer = np.issubdtype(buffer.dtype, np.integer)
    buffer[...] = np.iinfo(buffer.dtype).min if integer else np.nan


def _pieces(row: NDArray[Any], count: int, start: int) -> list[tuple[int, NDArray[Any]]]:
    """The periodic row from index `start` on, `count` elements, as (offset, slice of the row)."""
    period, at = len(row), 0
    pieces: list[tuple[int, NDArray[Any]]] = []
    while at < count:
        phase = (start + at) % period
        length = min(period - phase, count - at)
        pieces.append((at, row[phase : phase + length]))
        at += length
    return pieces


def _count_wrong(row: NDArray[Any], buffer: NDArray[Any], start: int) -> int:
    return sum(
        int(np.count_nonzero(buffer[at : at + len(piece)] != piece))
        for at, piece in _pieces(row, len(buffer), start)
    )
