"""Parts of routes as runs of chunks that move hop by hop, and step schedules from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import lcm

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array, frozen, ranges_of
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.schedules.steps.steps import Send, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.runs import joined, run_starts, within
from treadle.topologies.topology import Topology


@dataclass(frozen=True, eq=False)
class RouteRuns:
    """Runs of chunks with their routes; arrays of paths, and of hops in the order of paths.

    Parameters
    ----------
    n_ranks, n_chunks : int
    source, target, weight : arrays of int64, shape (S,)
        Of each shard.
    shard, low, high : arrays of int64, shape (k,)
        Of each path.
    path, hop, link : arrays of int64, shape (hops,)
    """

    n_ranks: int
    n_chunks: int
    source: Int64Array
    target: Int64Array
    weight: Int64Array
    shard: Int64Array
    low: Int64Array
    high: Int64Array
    path: Int64Array
    hop: Int64Array
    link: Int64Array

    @property
    def total(self) -> int:
        """Chunks times hops."""
        return int((self.high - self.low)[self.path].sum())

    def in_smaller_chunks(self, times: int) -> RouteRuns:
        """Return the same runs, each chunk split."""
        return replace(self, n_chunks=self.n_chunks * times, low=self.low * times, high=self.high * times)


def route_runs(
    topology: Topology, collective: Collective, routes: RouteSchedule, max_chunks: int
) -> RouteRuns:
    """Cut the routes' data into runs of chunks."""
    if max_chunks < 1:
        raise ScheduleError(f"chunks: expected at least 1 per shard, found {max_chunks}")
    demands = collective.pair_demands.between
    source, target = np.nonzero(demands)
    weight = demands[source, target]
    pairs, shard = np.unique(routes.pair, return_inverse=True)
    carried = np.bincount(shard, weights=routes.units, minlength=len(pairs))
    if (
        routes.n_ranks != collective.n_ranks
        or not np.array_equal(pairs, source * routes.n_ranks + target)
        or not np.array_equal(carried, weight * routes.n_chunks)
    ):
        raise ScheduleError("routes: they carry another all-to-all; expected exactly these demands")
    _check_links(topology, routes)
    n_chunks, ends = _chunk_ends(routes, shard, weight, max_chunks)
    low = np.where(run_starts(shard), 0, np.append(0, ends[:-1]))
    kept = np.flatnonzero(ends > low)
    hops = routes.hops[kept]
    path, place = ranges_of(routes.path_offset[kept], hops)
    return RouteRuns(
        n_ranks=routes.n_ranks,
        n_chunks=n_chunks,
        source=source,
        target=target,
        weight=weight,
        shard=shard[kept],
        low=low[kept],
        high=ends[kept],
        path=path,
        hop=within(hops),
        link=routes.path_links[place].astype(np.int64),
    )


def _check_links(topology: Topology, routes: RouteSchedule) -> None:
    links = np.unique(routes.path_links)
    if links.size and links[-1] >= topology.n_links:
        raise ScheduleError(
            f"routes: link {links[-1]}, {topology.name} has links 0 to {topology.n_links - 1}"
        )
    is_direct = topology.is_compute[topology.tails[links]] & topology.is_compute[topology.heads[links]]
    for link in links[~is_direct][:1]:
        raise ScheduleError(
            f"routes: link {topology.link_name(int(link))} ends at a switch, which cannot store and forward "
            f"in steps; use a fabric of compute nodes, or the routes as they are"
        )


def _chunk_ends(
    routes: RouteSchedule, shard: Int64Array, weight: Int64Array, max_chunks: int
) -> tuple[int, Int64Array]:
    """Return the chunks per shard, and the end of each path's run of them."""
    units = np.cumsum(routes.units)
    starts = np.searchsorted(shard, np.arange(len(weight)))
    until = units - (units - routes.units)[starts][shard]
    whole = (weight * routes.n_chunks)[shard]
    divisor, n_chunks = np.gcd(until, whole), 1
    for part in np.unique(whole // divisor).tolist():
        n_chunks = min(lcm(n_chunks, part), max_chunks + 1)
    if n_chunks <= max_chunks:
        return n_chunks, until // divisor * (n_chunks // (whole // divisor))
    return max_chunks, np.rint(until * (max_chunks / whole)).astype(np.int64)


def exchange_of(
    parts: RouteRuns, step: Int64Array, row: Int64Array, low: Int64Array, high: Int64Array
) -> ExchangeSchedule:
    """Make the sends of chunks [low, high) at hops `row`, one for adjacent runs on a link in a step."""
    keys = step, parts.shard[parts.path[row]], parts.link[row]
    step, shard, link, low, high = joined(keys, low, high)
    sends = steps_from_sends(
        Direction.BROADCAST,
        parts.n_ranks,
        parts.n_chunks,
        [shard, link, step, low, high],
        homes=parts.source.tolist(),
    )
    return ExchangeSchedule(sends, frozen(parts.target, np.int32))


def exchange_from_sends(
    collective: Collective,
    n_chunks: int,
    sends: Iterable[Send] | Sequence[NDArray[np.integer]],
    n_steps: int | None = None,
) -> ExchangeSchedule:
    """Return the schedule of these sends, as `steps_from_sends`; shards are the demanded pairs in order."""
    source, target = np.nonzero(collective.pair_demands.between)
    steps = steps_from_sends(
        Direction.BROADCAST, collective.n_ranks, n_chunks, sends, homes=source.tolist(), n_steps=n_steps
    )
    return ExchangeSchedule(steps, frozen(target, np.int32))
