"""Sums and look-ups over all hops of all subflows, block by block: indices take 8 bytes, the hops only 4."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array
from treadle.synthesis.alltoall.searched.subflows import Subflows

_BLOCK = 1 << 16


def looked_up(table: Int32Array, row: Int32Array, column: Int32Array) -> Int32Array:
    """table[row, column] of two arrays of the same shape (k,)."""
    found = np.empty(len(column), dtype=np.int32)
    for part in _blocks(len(column)):
        found[part] = table[row[part], column[part]]
    return found


def busiest(subflows: Subflows, offset: Int64Array, links: Int32Array) -> float:
    """Largest load over width, of subflow i on links[offset[i]:offset[i + 1]]."""
    table = subflows.table
    load: NDArray[np.float64] = np.zeros(len(table.tail))
    for part in _blocks(subflows.n_subflows):
        ends = offset[part.start : part.stop + 1]
        amount = np.repeat(table.amount[part], np.diff(ends))
        load += np.bincount(links[ends[0] : ends[-1]], weights=amount, minlength=len(load))
    return float((load / table.width).max(initial=0.0))


def _blocks(count: int) -> Iterator[slice]:
    for begin in range(0, count, _BLOCK):
        yield slice(begin, min(count, begin + _BLOCK))
