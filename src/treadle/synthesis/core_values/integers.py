"""Integers beyond 64 bits, as the compiled core takes them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array


class Wide(NamedTuple):
    """A 128-bit integer in two halves: high * 2**64 + low.

    Parameters
    ----------
    high : int
        Signed, 64 bits.
    low : int
        Not negative, 64 bits.
    """

    high: int
    low: int

    @classmethod
    def of(cls, value: int) -> Wide:
        """The halves of an integer of up to 127 bits and a sign."""
        return cls(value >> 64, value & (2**64 - 1))


class WideArray(NamedTuple):
    """128-bit integers in two halves: high * 2**64 + low.

    Parameters
    ----------
    high : array of int64, shape (n,)
    low : array of uint64, shape (n,)
    """

    high: Int64Array
    low: NDArray[np.uint64]

    @classmethod
    def of(cls, values: list[int]) -> WideArray:
        """The halves of integers of up to 127 bits and a sign."""
        high = np.array([value >> 64 for value in values], dtype=np.int64)
        return cls(high, np.array([value & (2**64 - 1) for value in values], dtype=np.uint64))
