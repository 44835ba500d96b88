"""From a fractional routing to a route schedule: whole chunks on at most R routes a pair."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Float64Array, Int32Array
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.route_cost import route_algbw
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.rate.host_caps import tightest_host
from treadle.synthesis.alltoall.routes.chunk_moves import move_chunks
from treadle.synthesis.alltoall.routes.integral_units import least_integral, rounded_units
from treadle.synthesis.alltoall.routes.path_sets import (
    PathSet,
    WeightedPaths,
    check_limits,
    check_paths,
    demanded_pairs,
    routes_of,
)
from treadle.synthesis.runs import first_in_runs
from treadle.topologies.topology import Topology


@dataclass(frozen=True)
class ChunkedRoutes:
    """A route schedule, and the loss by rounding to whole chunks.

    Parameters
    ----------
    schedule : RouteSchedule
    algbw : Fraction
        Bytes/s by the exact loads; hosts' injection caps limit their own data.
    loss : float
        Lost fraction of the fractional routing's rate; at times below 0, since moving chunks also improves
        a routing that is not optimal.
    """

    schedule: RouteSchedule
    algbw: Fraction
    loss: float


def route_schedule(
    topology: Topology,
    collective: Collective,
    paths: PathSet,
    weights: Float64Array,
    *,
    chunks: int | None = None,
    max_routes: int | None = None,
    layer: NDArray[np.integer] | None = None,
) -> ChunkedRoutes:
    """Assign whole chunks to paths in proportion to the weights.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    paths : PathSet
    weights : array of float64, shape (k,)
        Not negative; only a pair's proportions count. Each demanded pair needs a positive one.
    chunks : int, optional
        P per unit of demand; default the least that makes every weight an integer, or 64.
    max_routes : int, optional
        Most paths per pair; the heaviest are kept.
    layer : array of int, shape (k,), optional
        Of each path; default all 0 (see `layers`).

    Returns
    -------
    ChunkedRoutes

    Raises
    ------
    ScheduleError
        If an argument is out of range.
    InfeasibleError
        If a demanded pair has no path.

    Notes
    -----
    Largest remainders first, then single chunks move from paths over the most loaded link to other paths of
    their pair while that lowers the load.
    """
    check_limits(chunks, max_routes)
    if len(weights) != paths.n_paths or (weights.size and not np.all(np.isfinite(weights) & (weights >= 0))):
        raise ScheduleError("routes: expected one finite weight, not negative, for every path")
    positive = weights > 0
    paths, weights = paths.take(positive), weights[positive]
    number = np.zeros(paths.n_paths, dtype=np.int64) if layer is None else np.asarray(layer)[positive]
    pair = check_paths(collective, paths)
    _, _, demand = demanded_pairs(collective)
    whole = weights * (demand / np.bincount(pair, weights=weights))[pair]
    at_hosts, _ = tightest_host(topology, collective)
    ideal = min(WeightedPaths(paths, whole).rate(topology), float("inf" if at_hosts is None else at_hosts))
    kept = np.arange(len(pair)) if max_routes is None else first_in_runs(pair, -weights, max_routes)
    paths, pair, weights, number = paths.take(kept), pair[kept], weights[kept], number[kept]
    shares = weights / np.bincount(pair, weights=weights)[pair]
    if chunks is None:
        chunks = least_integral(shares * demand[pair])
    units = rounded_units(pair, shares * demand[pair] * chunks, demand * chunks)
    units = move_chunks(paths, pair, units, topology.bandwidths)
    used = units > 0
    layers: Int32Array = np.unique(number[used], return_inverse=True)[1].astype(np.int32)  # without gaps
    schedule = routes_of(collective, paths.take(used), units[used], chunks, layers)
    algbw = route_algbw(topology, collective, schedule)
    rate = float(algbw / collective.pair_demands.buffer_units)
    return ChunkedRoutes(schedule, algbw, 1 - rate / ideal)
