"""Algorithms for fully connected machines, run on the links that are there: messages hop and congest.

Every logical message takes one shortest path, stored and forwarded a hop per step; the next exchange starts
when the last message has come. A node keeps what passes through it and is not sent it again, so that every
shard reaches every node once and the reversed schedule adds nothing twice. On a hypercube in rank order
recursive doubling needs single hops only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import Collective
from treadle.schedules.forest import Direction
from treadle.schedules.steps import Steps, StepSchedule, steps_from_sends
from treadle.synthesis.step_baselines.both_ways import both_ways
from treadle.topologies.distances import distance_matrix
from treadle.topologies.topology import Topology


def recursive_doubling(topology: Topology, collective: Collective) -> StepSchedule:
    """Recursive doubling allgather; as allreduce the halving and doubling of Rabenseifner.

    Raises
    ------
    ScheduleError
        If the number of nodes is no power of two.

    Notes
    -----
    In exchange i ranks r and r xor 2^i swap all that they hold. Source: Thakur, Rabenseifner and Gropp,
    Optimization of collective communication operations in MPICH (IJHPCA 19, 2005).
    """
    n = topology.n_nodes
    if n & (n - 1):
        raise ScheduleError(f"recursive-doubling: {n} nodes are no power of two; use bruck")
    return both_ways("recursive-doubling", topology, collective, _doubling)


def _doubling(topology: Topology) -> Steps:
    n = topology.n_nodes
    ranks = np.arange(n)
    exchanges = []
    for bit in range(n.bit_length() - 1):
        held = ranks[:, None] // 2**bit * 2**bit + np.arange(2**bit)
        exchanges.append((ranks, ranks ^ 2**bit, held))
    return _routed(topology, exchanges)


def bruck(topology: Topology, collective: Collective) -> StepSchedule:
    """Bruck's allgather for any number of nodes.

    Notes
    -----
    In exchange i rank r sends the up to 2^i shards that it holds to rank r - 2^i. Source: Bruck, Ho, Kipnis,
    Upfal and Weathersby, Efficient algorithms for all-to-all communications in multiport message-passing
    systems (IEEE TPDS 8, 1997).
    """
    return both_ways("bruck", topology, collective, _bruck)


def _bruck(topology: Topology) -> Steps:
    n = topology.n_nodes
    ranks = np.arange(n)
    exchanges = []
    distance = 1
    while distance < n:
        count = min(distance, n - distance)
        held = (ranks[:, None] + np.arange(count)) % n
        exchanges.append((ranks, (ranks - distance) % n, held))
        distance *= 2
    return _routed(topology, exchanges)


_Exchange = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""Senders, their receivers, and per sender the shards that it sends."""


def _routed(topology: Topology, exchanges: list[_Exchange]) -> Steps:
    """Steps of the exchanges, one after another."""
    onward = _next_links(topology)
    n = topology.n_nodes
    holds = np.eye(n, dtype=np.bool_)  # [node, shard]
    columns: list[list[Int64Array]] = [[], [], []]
    start = 0
    for senders, receivers, held in exchanges:
        place = np.array(senders)
        hop = 0
        while True:
            moving = np.flatnonzero(place != receivers)
            if not moving.size:
                break
            links = onward[place[moving], receivers[moving]]
            place[moving] = topology.heads[links]
            shards = held[moving].ravel()
            crossed = np.repeat(links, held.shape[1])
            arrivals = topology.heads[crossed].astype(np.int64) * n + shards
            first = np.unique(arrivals, return_index=True)[1]
            first = first[~holds.ravel()[arrivals[first]]]
            columns[0].append(shards[first])
            columns[1].append(crossed[first])
            columns[2].append(np.full(len(first), start + hop))
            holds.ravel()[arrivals[first]] = True
            hop += 1
        start += hop
    shard, link, step = (np.concatenate(column) for column in columns)
    return steps_from_sends(
        Direction.BROADCAST,
        topology.n_nodes,
        1,
        [shard, link, step, np.zeros_like(shard), np.ones_like(shard)],
    )


def _next_links(topology: Topology) -> Int64Array:
    """First link of a shortest path from each node to each, shape (N, N): the lowest link number that fits.

    Raises
    ------
    InfeasibleError
        If a node does not reach another.
    """
    n = topology.n_nodes
    distance = distance_matrix(topology)
    onward = np.full((n, n), -1, dtype=np.int64)
    for link in range(topology.n_links - 1, -1, -1):
        tail, head = int(topology.tails[link]), int(topology.heads[link])
        onward[tail, distance[tail] == distance[head].astype(np.int64) + 1] = link
    np.fill_diagonal(onward, 0)
    if (onward < 0).any():
        raise InfeasibleError(f"{topology.name}: a node does not reach another")
    return onward
