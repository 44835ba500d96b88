"""Steps of an all-to-all from weighted routes that are repeated, each hop a step behind the one before."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.steps.pipelined import MAX_CHUNKS
from treadle.synthesis.alltoall.steps.route_runs import exchange_of, route_runs
from treadle.topologies.topology import Topology
from treadle.watch import UNWATCHED, Watch


def staggered(
    topology: Topology,
    collective: Collective,
    routes: RouteSchedule,
    *,
    rounds: int,
    max_chunks: int = MAX_CHUNKS,
    watch: Watch = UNWATCHED,
) -> ExchangeSchedule:
    """The routes K times over, a K-th of their data each time, each hop a step behind the one before.

    Parameters
    ----------
    topology, collective, routes, max_chunks, watch
        As in `pipelined`.
    rounds : int
        K >= 1.

    Returns
    -------
    ExchangeSchedule
        Of K + D - 1 steps, D the longest route.

    Raises
    ------
    ScheduleError
        If the routes do not serve the collective, or pass a switch.
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
    times = min(rounds, max_chunks // parts.n_chunks)
    if times > 1:
        parts = parts.in_smaller_chunks(times)
    size = (parts.high - parts.low)[parts.path]
    # routes of few chunks start in different rounds
    shift = parts.path % rounds
    rows: list[Int64Array] = []
    steps: list[Int64Array] = []
    lows: list[Int64Array] = []
    highs: list[Int64Array] = []
    for number in range(rounds):
        watch.beat("steps", number, rounds)
        # the same rule says where each round ends and the next begins, so nothing is lost to rounding
        low, high = ((size * turn + shift) // rounds for turn in (number, number + 1))
        row = np.flatnonzero(high > low)
        start = parts.low[parts.path[row]]
        rows.append(row)
        steps.append(number + parts.hop[row])
        lows.append(start + low[row])
        highs.append(start + high[row])
    return exchange_of(parts, *(np.concatenate(column) for column in (steps, rows, lows, highs)))
