"""Rounds of messages between ranks on the links that are there: stored and forwarded, a hop per step."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.baselines.first_paths import check_links, next_links
from treadle.synthesis.alltoall.routes.path_sets import demanded_pairs
from treadle.synthesis.alltoall.steps.route_runs import exchange_from_sends
from treadle.topologies.topology import Topology

MAX_SENDS = 5 * 10**7
"""Most sends of a baseline's schedule."""

Round = tuple[BoolArray, NDArray[np.integer]]
"""Moving shards, shape (S,), and their target ranks, shape (S,)."""


def check_compute_only(name: str, topology: Topology) -> None:
    """ScheduleError if the fabric has switches, which cannot hold chunks."""
    if len(topology.switches):
        raise ScheduleError(
            f"{name}: {topology.name} has switches, which cannot store and forward; use routes"
        )


def check_size(name: str, sends: int) -> None:
    """ScheduleError if a schedule would have too many sends."""
    if sends > MAX_SENDS:
        raise ScheduleError(f"{name}: the schedule would have over {MAX_SENDS} sends; use fewer ranks")


def run_rounds(
    name: str, topology: Topology, collective: Collective, rounds: Iterable[Round]
) -> ExchangeSchedule:
    """Shards move to ranks in rounds; a round begins when all of the one before have come.

    Every message takes the shortest path whose links come first, a hop per step. A shard that passes its
    target on the way to another rank stays there. Parallel links share a message as far as every pair of
    neighbours has them.

    Raises
    ------
    ScheduleError
        If the fabric has switches, or the schedule would be too large.
    InfeasibleError
        If a rank cannot be reached.
    """
    check_compute_only(name, topology)
    source, target, _ = demanded_pairs(collective)
    ranks = np.array(collective.ranks)
    onward = next_links(topology, collective)
    place, goal = ranks[source], ranks[target]
    shards: list[Int64Array] = []
    links: list[Int64Array] = []
    total = 0
    for moves, destination in rounds:
        moving = np.flatnonzero(moves & (place != goal) & (place != ranks[destination]))
        while moving.size:
            link = onward[destination[moving], place[moving]]
            check_links(topology, link, place[moving], ranks[destination[moving]])
            total += len(link)
            check_size(name, total)
            shards.append(moving)
            links.append(link)
            place[moving] = topology.heads[link]
            at = place[moving]
            moving = moving[(at != goal[moving]) & (at != ranks[destination[moving]])]
    assert np.array_equal(place, goal)
    copies = parallel_links(topology)
    step = np.repeat(np.arange(len(shards)), [len(part) for part in shards])
    shard, link = np.concatenate(shards), np.concatenate(links)
    check_size(name, total * len(copies))
    chunk = np.repeat(np.arange(len(copies)), len(shard))
    every = [np.tile(shard, len(copies)), copies[:, link].ravel(), np.tile(step, len(copies))]
    return exchange_from_sends(collective, len(copies), [*every, chunk, chunk + 1])


def parallel_links(topology: Topology) -> Int64Array:
    """For each part of a message, the link to take instead of each link, shape (parts, m).

    There are as many parts as every pair of neighbours has links; where it has more, the rest stay idle.
    """
    joined = topology.tails.astype(np.int64) * topology.n_nodes + topology.heads
    order = np.argsort(joined, kind="stable")
    pairs, first, count = np.unique(joined[order], return_index=True, return_counts=True)
    is_loop = pairs // topology.n_nodes == pairs % topology.n_nodes
    parts = int(count[~is_loop].min())
    copies = np.tile(np.arange(topology.n_links), (parts, 1))
    for part in range(parts):
        copies[part, order[first]] = order[first + np.minimum(part, count - 1)]
    return copies
