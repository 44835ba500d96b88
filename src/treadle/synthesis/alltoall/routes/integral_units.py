"""Shares of paths as whole chunks: common denominators, and rounding that keeps every pair's total."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Float64Array, Int64Array
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.routes.path_sets import WeightedPaths, routes_of
from treadle.synthesis.runs import positions_in_runs

DEFAULT_CHUNKS = 64
"""Chunks where no smaller number makes every share whole."""

_NEAR = 1e-6


def common_chunks(weights: Float64Array, *, limit: int = DEFAULT_CHUNKS) -> int | None:
    """The least number of chunks per unit of demand, up to `limit`, that makes every weight whole.

    This is the highest common factor of the weights, as the all-to-all paper chooses the size of its chunks;
    None where it needs more chunks than the limit.

    Examples
    --------
    >>> common_chunks(np.array([0.5, 0.25])), common_chunks(np.array([0.5, 0.25]), limit=3)
    (4, None)
    """
    for chunks in range(1, limit + 1):
        scaled = weights * chunks
        if np.all(np.abs(scaled - np.rint(scaled)) < _NEAR * chunks):
            return chunks
    return None


def least_integral(weights: Float64Array) -> int:
    """`common_chunks`, or the default number where that needs more."""
    return common_chunks(weights) or DEFAULT_CHUNKS


def rounded_units(pair: Int64Array, wanted: Float64Array, total: Int64Array) -> Int64Array:
    """Round to integers that add up for each pair, by largest remainders.

    Parameters
    ----------
    pair : array of int64, shape (k,)
        Number of each path's pair.
    wanted : array of float64, shape (k,)
        A pair's add up to about its total.
    total : array of int64, shape (pairs,)

    Returns
    -------
    array of int64, shape (k,)

    Examples
    --------
    >>> rounded_units(np.array([0, 0, 1]), np.array([1.4, 1.6, 3.0]), np.array([3, 3])).tolist()
    [1, 2, 3]
    """
    units = np.floor(wanted + _NEAR).astype(np.int64)
    missing = total - np.bincount(pair, weights=units, minlength=len(total)).astype(np.int64)
    order = np.lexsort((units - wanted, pair))
    units[order[positions_in_runs(pair[order]) < missing[pair[order]]]] += 1
    return units


def rounded_routes(
    collective: Collective,
    routing: WeightedPaths,
    *,
    chunks: int | None = None,
    parts: int | None = None,
) -> RouteSchedule:
    """A fractional routing in whole chunks, in one layer.

    Parameters
    ----------
    collective : Collective
        Collective of the routing.
    routing : WeightedPaths
    chunks : int, optional
        P per unit of demand; default the least up to 64 that makes every weight whole, or 64.
    parts : int, optional
        Every path takes an integral number of this many equal parts of its pair's demand, instead.

    Notes
    -----
    Linear, and nothing else: `route_units.route_schedule` also moves chunks off the busiest links, which
    takes long for many pairs, where rounding matters least.
    """
    paths = routing.paths
    n_chunks = parts or chunks or least_integral(routing.weights)
    key = paths.source.astype(np.int64) * collective.n_ranks + paths.target
    pairs, pair = np.unique(key, return_inverse=True)
    demand = collective.pair_demands.between.reshape(-1)[pairs]
    grain = np.ones(len(pairs), dtype=np.int64) if parts is None else demand
    units = rounded_units(pair, routing.weights * n_chunks / grain[pair], demand * n_chunks // grain)
    units *= grain[pair]
    used = units > 0
    return routes_of(collective, paths.take(used), units[used], n_chunks)
