"""Steps of an all-to-all from weighted routes that are repeated, each hop a step behind the one before."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array, sums_of
from treadle.context import context
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.steps.pipelined import MAX_CHUNKS
from treadle.synthesis.alltoall.steps.route_runs import exchange_of, route_runs
from treadle.synthesis.runs import within
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
    """Repeat the routes K times with a K-th of their data each, each hop a step behind the one before.

    Parameters
    ----------
    topology, collective, routes, max_chunks
        As in `pipelined`.
    rounds : int
        K >= 1.
    max_sends : int, optional
        Approximate limit; routes with little data then move it in fewer rounds.

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
    No step takes longer than a K-th of the routes' time, so all take (K + D - 1)/K of it; slightly more where
    the limit of chunks does not allow K for every share. Queues (`pipelined`) mostly take less, with fewer
    sends, but their loss is not bounded: with unequal bandwidths, links may idle while their data wait
    elsewhere.

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
    # Routes of few turns start in different rounds.
    shift = parts.path * _SPREAD % rounds
    sends: list[tuple[Int64Array, ...]] = []
    for number in range(rounds):
        context().report("steps", number, rounds)
        # A round begins where the one before ends, by the same rule, so rounding loses nothing.
        low, high = (size * ((turns * turn + shift) // rounds) // turns for turn in (number, number + 1))
        row = np.flatnonzero(high > low)
        start = parts.low[parts.path[row]]
        sends.append((number + parts.hop[row], row, start + low[row], start + high[row]))
    return exchange_of(parts, *map(np.concatenate, zip(*sends, strict=True)))


def _turns(amount: Int64Array, rounds: int, max_sends: int) -> Int64Array:
    """Return the rounds in which each hop carries data: all, or in proportion to its amount, at least one."""
    if len(amount) * rounds <= max_sends:
        return np.full(len(amount), rounds)
    rising = np.sort(amount).astype(np.float64)
    below, above = np.cumsum(rising), np.arange(len(rising) - 1, -1, -1)
    sends = rounds * (below / rising + above)  # if hops up to that amount have turns in proportion
    place = min(int(np.count_nonzero(sends > max_sends)), len(rising) - 1)
    turns: Int64Array = np.clip(np.ceil(amount * (rounds / rising[place])), 1, rounds).astype(np.int64)
    return turns


def rounds_within(topology: Topology, routes: RouteSchedule, loss: float) -> int:
    """Return the least K for which the repeated routes lose at most this fraction of their throughput.

    Parameters
    ----------
    topology : Topology
    routes : RouteSchedule
    loss : float
        Above 0.

    Notes
    -----
    All K + D - 1 steps take a K-th of the time of the fullest link, except the first and last D - 1, which
    take as long as the hops that have begun, or are left, require. Chunks are assumed to be small enough.
    """
    hops = routes.hops
    longest, m = int(hops.max(initial=1)), topology.n_links
    amount = np.repeat(routes.units, hops)
    table = np.bincount(within(hops) * m + routes.path_links, weights=amount, minlength=longest * m).reshape(
        longest, m
    )
    groups = [table / topology.bandwidths]
    caps = topology.injection_bytes_per_s
    if caps.any():
        for ends in (topology.tails, topology.heads):
            through = sums_of((topology.n_nodes, longest), ends, table.T, dtype=float).T
            groups.append(through[:, caps > 0] / caps[caps > 0])
    times = np.concatenate(groups, axis=1)
    full = float(times.sum(axis=0).max())
    begun = np.cumsum(times, axis=0).max(axis=1)[:-1]
    ending = np.cumsum(times[::-1], axis=0).max(axis=1)[:-1]
    extra = float((begun + ending - full).sum()) / full
    return max(longest, int(np.ceil(extra * (1 - loss) / loss)))
