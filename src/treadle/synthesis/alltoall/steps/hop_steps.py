"""Steps for routes that are at hand: every hop gets one, within whole caps that add up to the largest load.

The rate of routes in steps is that of the routes themselves where the steps' fullest links carry no more in
all than the routes' fullest link. So each step has a cap, and the caps add up to that load. The first and
last are small: a link that is full has few hops that are the first of their path, or the last. Then hops are
placed path by path so that none exceeds its cap. Source: docs/how-it-works/all-to-all.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array, offsets_of, positions_of
from treadle.engine import core, run_until
from treadle.errors import InfeasibleError
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.steps.route_runs import exchange_from_sends
from treadle.synthesis.core_values.column_values import HopPaths, StepPace
from treadle.synthesis.runs import within
from treadle.topologies.topology import Topology

STEPS_PER_HOP, _UNEQUAL_STEPS = 3, 2
"""Default steps for each hop of the longest path: enough to place nearly all hops freely.

Unequal demands fill each step's caps less exactly, so fewer steps lose less.
"""

_RAMP = 4
"""Steps at either end with smaller caps, at most; the pipeline fills and empties."""

_DOUBLINGS = 7
"""Steps at either end whose caps double, where nearly all links are full: few hops there are the first.

So the optimal flow over time of such routes looks: a tenth of Pi(4,100)'s pairs lose nothing in 21 steps.
"""

_TRIES, _PASSES = 6, 400

_SWEEPS = 40
"""Over all paths at exponential prices, where nearly all links are full."""

_RISES = 2000
"""A cap rises by this part of the largest load at a time."""

_PART, _UNEQUAL_PART = 8, 24
"""Runs of chunks in an even step's cap, at least, where all pairs have equal demands, and where not."""

_SAND, _SAND_PART = 0.2, 256
"""Fraction of every path of unequal demands that is split finely, to fill what large runs leave."""

_GRAIN = 4
"""Chunks of the smallest run, if as many are allowed: runs of whole chunks are about equal then."""

_MOST_WORK = 2**30
"""Places (hop, step) that sweeps look at, at most: some ten CPU seconds."""

MAX_CHUNKS = 64
"""Chunks per shard."""


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of chunks with their paths: routes, cut into equal parts.

    Parameters
    ----------
    n_chunks : int
        Per shard, a power of two.
    shard, low, high : arrays of int32, shape (k,)
    amount : array of int64, shape (k,)
        In proportion to their data.
    offset : array of int64, shape (k + 1,)
    links : array of int32
    """

    n_chunks: int
    shard: Int32Array
    low: Int32Array
    high: Int32Array
    amount: Int64Array
    offset: Int64Array
    links: Int32Array


_Loads = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
"""Amounts over the bandwidth relative to the least: of each link, shape (m,), and the part of it by hops
within a distance from the start of their path, and from its end, shapes (longest, m)."""


def routes_in_steps(
    topology: Topology,
    collective: Collective,
    routes: RouteSchedule,
    *,
    max_steps: int | None = None,
    max_chunks: int = MAX_CHUNKS,
    is_tight: bool = False,
    max_passes: int = _PASSES,
) -> ExchangeSchedule:
    """The routes' chunks hop by hop, in steps that take hardly longer in all than the routes' fullest link.

    Parameters
    ----------
    topology : Topology
        Without switches; hosts store and forward.
    collective : Collective
    routes : RouteSchedule
        Of the collective; each carries an integral number of 2**-a parts of its pair's demand.
    max_steps : int, optional
        Default: 3 for each hop of the longest path, 2 if demands are unequal.
    max_chunks : int
        Of a shard.
    is_tight : bool
        Nearly all links are full, or all that matter: loads are levelled first, small caps double.
    max_passes : int
        Over the hops that exceed caps.

    Raises
    ------
    InfeasibleError
        If a path has more hops than there may be steps.
    """
    hops = routes.hops
    longest = int(hops.max(initial=0))
    demands = collective.pair_demands.between
    each = STEPS_PER_HOP if demands[demands > 0].min() == demands.max() else _UNEQUAL_STEPS
    n_steps = each * longest if max_steps is None else max_steps
    width = topology.bandwidths / topology.bandwidths.min()
    runs = _runs(collective, routes, n_steps, width, max_chunks)
    step = assigned_steps(runs, width, n_steps, topology.name, is_tight=is_tight, max_passes=max_passes)
    path = np.repeat(np.arange(len(runs.amount), dtype=np.int32), np.diff(runs.offset))
    sends = [runs.shard[path], runs.links, step, runs.low[path], runs.high[path]]
    return exchange_from_sends(collective, runs.n_chunks, sends)


def assigned_steps(
    runs: Runs,
    width: NDArray[np.float64],
    n_steps: int,
    name: str,
    *,
    is_tight: bool = False,
    max_passes: int = _PASSES,
) -> Int32Array:
    """Return the step of every hop of the runs; see `routes_in_steps`, whose error it raises."""
    longest = int(np.diff(runs.offset).max(initial=0))
    if longest > n_steps:
        raise InfeasibleError(
            f"{name}: a route has {longest} hops, at most {n_steps} steps are allowed (--max-steps)"
        )
    caps = _caps(_loads(runs, width), n_steps, is_tight)
    sweeps = min(_SWEEPS, _MOST_WORK // max(1, len(runs.links) * n_steps)) if is_tight else 0
    pace = StepPace(_TRIES, max_passes, max(1, int(caps.sum()) // _RISES), 0, sweeps)
    given = HopPaths(runs.offset, runs.links, runs.amount, width)
    _, caps, step = run_until("steps", lambda control: core.assign_hop_steps(given, pace, caps, control))
    return step


def _runs(
    collective: Collective,
    routes: RouteSchedule,
    n_steps: int,
    width: NDArray[np.float64],
    max_chunks: int,
) -> Runs:
    """The routes cut so that many runs fit into a step's cap."""
    demands = collective.pair_demands.between
    demand = demands[demands > 0]
    number = positions_of(demands.size, np.flatnonzero(demands))
    shard = number[routes.pair]
    whole = demand[shard] * routes.n_chunks
    hops = routes.hops
    load = np.bincount(routes.path_links, weights=np.repeat(routes.units, hops), minlength=len(width)) / width
    even = float(load.max()) / n_steps  # in 1/P of a unit of demand
    given = np.ones(len(demand), dtype=np.int64)
    np.maximum.at(given, shard, whole // np.gcd(routes.units, whole))
    assert not np.any(given & (given - 1))
    most = 1 << (max_chunks.bit_length() - 1)
    if demand.min() == demand.max() and len(demand) == collective.n_ranks * (collective.n_ranks - 1):
        wanted = np.exp2(np.ceil(np.log2(np.maximum(demand * routes.n_chunks * _PART / even, 1))))
        parts = np.maximum(given, np.minimum(wanted.astype(np.int64), most))
        n_chunks = int(parts.max())
        count = routes.units * parts[shard] // whole
        run = np.repeat(np.arange(routes.n_paths), count)
        size = (n_chunks // parts)[shard][run]
    else:
        n_chunks, run, size = _uneven_runs(routes.units, whole, even, int(given.max()), most)
    high = np.cumsum(size)
    first = np.searchsorted(shard[run], np.arange(len(demand)))
    high = high - (high - size)[first][shard[run]]
    offset = offsets_of(hops[run])
    place = np.repeat(routes.path_offset[run] - offset[:-1], hops[run]) + np.arange(offset[-1])
    amount = demand[shard[run]] * size
    return Runs(
        n_chunks,
        shard[run].astype(np.int32),
        (high - size).astype(np.int32),
        high.astype(np.int32),
        amount // np.gcd.reduce(amount),
        offset,
        routes.path_links[place],
    )


def _uneven_runs(
    units: Int64Array, whole: Int64Array, even: float, given: int, most: int
) -> tuple[int, Int64Array, Int64Array]:
    """Chunks per shard; the path of every run, in their order, and its chunks: large runs and sand of each.

    Runs of a path need not be equal, so their number does not depend on how fine the chunks are.
    """
    large = np.ceil(units * (1 - _SAND) * _UNEQUAL_PART / even)
    fine = np.ceil(units * _SAND * _SAND_PART / even)
    grain = float((whole / units * (large + fine)).max()) * _GRAIN
    n_chunks = max(given, min(most, 1 << int(np.ceil(np.log2(grain)))))
    chunks = units * n_chunks // whole
    sand = (chunks * _SAND).astype(np.int64)
    block = np.stack([chunks - sand, sand], axis=1).reshape(-1)
    count = np.minimum(np.stack([large, fine], axis=1).reshape(-1).astype(np.int64), block)
    of_block, turn = np.repeat(np.arange(len(block)), count), within(count)
    total, parts = block[of_block], count[of_block]
    return n_chunks, of_block // 2, total * (turn + 1) // parts - total * turn // parts


def _loads(runs: Runs, width: NDArray[np.float64]) -> _Loads:
    """Return the links' loads: all, and by hops near the start and near the end of their paths."""
    hops, m = np.diff(runs.offset), len(width)
    longest = int(hops.max(initial=0))
    at = np.arange(len(runs.links)) - np.repeat(runs.offset[:-1], hops)
    amount = np.repeat(runs.amount, hops)
    tables = []
    for place in (at, np.repeat(hops, hops) - 1 - at):
        table = np.bincount(place * m + runs.links, weights=amount, minlength=longest * m)
        tables.append(np.cumsum(table.reshape(longest, m), axis=0) / width)
    return tables[0][-1], tables[0], tables[1]


def _caps(loads: _Loads, n_steps: int, is_tight: bool) -> Int64Array:
    """Chunks that a link of the least bandwidth may carry in each step; they add up to the largest load.

    By step t, links have carried at most what their hops up to the t-th of their paths amount to; what is
    left must fit into the caps to come. So the caps up to t add up to no more than the largest load less what
    some link has left over; and the same from the end.
    """
    load, from_start, to_end = loads
    most = int(np.ceil(load.max()))
    ramp = max(1, min(_DOUBLINGS if is_tight else _RAMP, n_steps // 4))
    from_end = np.minimum(np.arange(1, n_steps + 1), np.arange(n_steps, 0, -1))
    even = np.minimum(np.exp2(from_end - (ramp + 1)) if is_tight else from_end / (ramp + 1), 1.0)
    until = most * np.cumsum(even) / even.sum()  # caps up to each step
    for t in range(min(len(from_start), n_steps)):
        first = float((most - load + from_start[t]).min())
        last = float((most - load + to_end[t]).min())
        until[t] = min(until[t], first)
        if t + 1 < n_steps:
            until[n_steps - 2 - t] = max(until[n_steps - 2 - t], most - last)
    until = np.maximum.accumulate(until)
    caps: Int64Array = np.diff(np.floor(until + 0.5), prepend=0.0).astype(np.int64)
    caps[n_steps // 2] += most - int(caps.sum())
    return caps
