"""One path a pair out of given ones, at a low largest load."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array, sums_of
from treadle.context import context
from treadle.synthesis.alltoall.routes.path_sets import Float64Array, PathSet, path_rows

_POWERS = (4.0, 12.0, 30.0)
"""Exponents of the load in the cost that successive rounds lower."""

_MOST = 1e9
"""Loads, relative to the largest so far, that cost the same from there on: their powers stay finite."""

_BEAT_PAIRS = 2**10
"""Pairs between two looks at the clock."""


def single_paths(
    paths: PathSet, pair: Int64Array, demand: Float64Array, bandwidth: Float64Array
) -> Int64Array:
    """Choose a path for every pair, shown as its number among `paths`; shape (pairs,).

    Parameters
    ----------
    paths : PathSet
    pair : array of int64, shape (k,)
        Number of each path's pair, rising from 0 without gaps.
    demand : array of float64, shape (pairs,)
    bandwidth : array of float64, shape (m,)

    Raises
    ------
    TimeLimitError
        If the deadline passes.

    Notes
    -----
    Each pair in turn moves to the path that adds least to the sum of the loads to a power that grows round
    by round: local search for the least largest load.
    """
    m = len(bandwidth)
    rows = np.where(path_rows(paths) >= 0, path_rows(paths), m)
    first = np.searchsorted(pair, np.arange(len(demand) + 1)).tolist()
    chosen = np.array(first[:-1])
    width = np.append(bandwidth, np.inf)
    added = demand[pair][:, None] / width[rows]  # of a path to the time of each of its links
    time = sums_of(m + 1, rows[chosen], added[chosen], dtype=float)
    order = np.random.default_rng(0).permutation(len(demand)).tolist()
    for power in _POWERS:
        scale = float(time.max()) or 1.0
        for done, number in enumerate(order):
            if done % _BEAT_PAIRS == 0:
                context().report("single paths", done, len(order))
            low, high = first[number], first[number + 1]
            if high - low == 1:
                continue
            old = chosen[number]
            time[rows[old]] -= added[old]
            near, more = time[rows[low:high]], added[low:high]
            before, after = near / scale, (near + more) / scale
            cost = (np.minimum(after, _MOST) ** power - np.minimum(before, _MOST) ** power).sum(axis=1)
            new = low + int(cost.argmin())
            chosen[number] = new
            time[rows[new]] += added[new]
        np.maximum(time, 0.0, out=time)
    result: Int64Array = chosen.astype(np.int64)
    return result
