"""Integers in given proportions, with given sums."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.synthesis.runs import run_starts

_SAFE = 2.0**62


def in_proportion(parts: Int64Array, given: Int64Array, total: Int64Array) -> Int64Array:
    """floor(part * given / total) of each, the products beyond 64 bits too."""
    if not len(parts) or float(parts.max()) * float(given.max()) < _SAFE:
        return parts * given // total
    exact = zip(parts.tolist(), given.tolist(), total.tolist(), strict=True)
    return np.array([part * share // whole for part, share, whole in exact], dtype=np.int64)


def quotas(sizes: Int64Array, group: Int32Array | Int64Array, wanted: Int64Array) -> Int64Array:
    """Divide each group's amount among its members, in proportion to their sizes and none above it.

    Parameters
    ----------
    sizes : array of int64, shape (i,)
    group : array of integers, shape (i,)
        Of each member, in any order.
    wanted : array of int64
        By group; at most the sum of its members' sizes.
    """
    order = np.argsort(group, kind="stable")
    of = group[order]
    stop = np.cumsum(sizes[order])
    starts = run_starts(of)
    first = np.flatnonzero(starts)
    place = np.cumsum(starts) - 1
    before = stop[first] - sizes[order][first]
    total = np.append(before[1:], stop[-1:]) - before
    divided = in_proportion(stop - before[place], wanted[of], np.maximum(total[place], 1))
    parts = np.empty_like(divided)
    parts[order] = np.where(starts, divided, np.diff(divided, prepend=0))
    return parts
