"""Steps of an all-to-all from weighted routes that are repeated, each hop a step behind the one before."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array
from treadle.context import context
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.steps.pipelined import MAX_CHUNKS
from treadle.synthesis.alltoall.steps.route_runs import exchange_of, route_runs
from treadle.topologies.topology import Topology

_SPREAD = 40503
"""Odd, about 0.618 of 2**16: routes' first rounds lie far apart."""


def staggered(
    topology: Topology,
    collective: Collective,
    routes: RouteSchedule,
    *,
    rounds: int,
    max_chunks: int = MAX_CHUNKS,
    max_sends: int | None = None,
) -> ExchangeSchedule:
    """The routes K times over, a K-th of their data each time, each hop a step behind the one before.

    Parameters
    ----------
    topology, collective, routes, max_chunks, watch
        As in `pipelined`.
    rounds : int
        K >= 1.
    max_sends : int, optional
        About; routes that carry little then move all that they carry in fewer rounds.

    Returns
    -------
    ExchangeSchedule
        Of K + D - 1 steps, D the longest route.

    Raises
    ------
    ScheduleError
        If the routes do not implement the collective, or pass a switch.
    TimeLimitError
        If the deadline passed.

    Notes
    -----
    No step takes longer than a K-th of the routes' time, so all take (K + D - 1)/K of it; somewhat more where
    the limit of chunks does not allow K for every share. Queues (`pipelined`) mostly take less, with fewer
    sends, but nothing bounds what they lose: where links have unlike bandwidths some may idle while what they
    are to carry waits elsewhere.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.synthesis.alltoall.routes.shortest_paths import split_over_shortest_paths
    >>> from treadle.topologies.catalogue.graphs import ring
    >>> fabric = ring(5)
    >>> collective = on_all_ranks(fabric, CollectiveKind.ALLTOALL)
    >>> staggered(fabric, collective, split_over_shortest_paths(fabric, collective), rounds=4).n_steps
    5
    """
    if rounds < 1:
        raise ScheduleError(f"rounds: expected at least 1, found {rounds}")
    parts = route_runs(topology, collective, routes, max_chunks)
    parts = parts.in_smaller_chunks(max(1, min(rounds, max_chunks // parts.n_chunks)))
    size = (parts.high - parts.low)[parts.path]
    turns = np.minimum(size, rounds)
    if max_sends is not None:
        turns = np.minimum(turns, _turns(size * parts.weight[parts.shard[parts.path]], rounds, max_sends))
    # routes of few turns start in different rounds
    shift = parts.path * _SPREAD % rounds
    sends: list[tuple[Int64Array, ...]] = []
    for number in range(rounds):
        context().report("steps", number, rounds)
        # the same rule says where each round ends and the next begins, so nothing is lost to rounding
        low, high = (size * ((turns * turn + shift) // rounds) // turns for turn in (number, number + 1))
        row = np.flatnonzero(high > low)
        start = parts.low[parts.path[row]]
        sends.append((number + parts.hop[row], row, start + low[row], start + high[row]))
    return exchange_of(parts, *map(np.concatenate, zip(*sends, strict=True)))


def _turns(amount: Int64Array, rounds: int, max_sends: int) -> Int64Array:
    """Rounds in which each hop carries something: all, or as its amount is to that of those, at least one."""
    if len(amount) * rounds <= max_sends:
        return np.full(len(amount), rounds)
    rising = np.sort(amount).astype(np.float64)
    below, above = np.cumsum(rising), np.arange(len(rising) - 1, -1, -1)
    sends = rounds * (below / rising + above)  # if all of at most that amount have turns in proportion
    place = min(int(np.count_nonzero(sends > max_sends)), len(rising) - 1)
    turns: Int64Array = np.clip(np.ceil(amount * (rounds / rising[place])), 1, rounds).astype(np.int64)
    return turns


def rounds_within(topology: Topology, routes: RouteSchedule, loss: float) -> int:
    """The least K for which the routes, repeated, lose no more than so much of what they carry.

    Parameters
    ----------
    topology : Topology
    routes : RouteSchedule
    loss : float
        Of their throughput, above 0.

    Notes
    -----
    All K + D - 1 steps but the first and last D - 1 take a K-th of the time of the fullest link, these as
    long as the hops that have begun, or are left, require; chunks are taken to be as small as need be.
    """
    hops = routes.hops
    longest, m = int(hops.max(initial=1)), topology.n_links
    at = np.arange(len(routes.path_links)) - np.repeat(routes.path_offset[:-1], hops)
    amount = np.repeat(routes.units, hops)
    table = np.bincount(at * m + routes.path_links, weights=amount, minlength=longest * m).reshape(longest, m)
    groups = [table / topology.bandwidths]
    caps = topology.injection_bytes_per_s
    if caps.any():
        for ends in (topology.tails, topology.heads):
            through = np.zeros((longest, topology.n_nodes))
            np.add.at(through.T, ends, table.T)
            groups.append(through[:, caps > 0] / caps[caps > 0])
    times = np.concatenate(groups, axis=1)
    full = float(times.sum(axis=0).max())
    begun = np.cumsum(times, axis=0).max(axis=1)[:-1]
    ending = np.cumsum(times[::-1], axis=0).max(axis=1)[:-1]
    extra = float((begun + ending - full).sum()) / full
    return max(longest, int(np.ceil(extra * (1 - loss) / loss)))
