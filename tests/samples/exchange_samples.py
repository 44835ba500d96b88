"""Small all-to-all step schedules, and a slow checker that judges them from scratch, chunk by chunk.

Nothing here uses the verifier or `treadle.schedules.alltoall.exchange_cost`.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np

from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.steps import Send, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.alltoall.routes.shortest_paths import split_over_shortest_paths
from treadle.synthesis.alltoall.steps.pipelined import hop_synchronous, pipelined
from treadle.topologies.topology import Topology


def alltoall(topology: Topology, demands: Demands | None = None, *, n_ranks: int | None = None) -> Collective:
    """On all compute nodes, or on the first so many; the others forward."""
    nodes = [int(node) for node in topology.compute_nodes]
    n = len(nodes) if n_ranks is None else n_ranks
    return Collective(CollectiveKind.ALLTOALL, tuple(nodes[:n]), forwarders=tuple(nodes[n:]), demands=demands)


def random_demands(n: int, seed: int, *, most: int = 3) -> Demands:
    """Some zero, on the diagonal too."""
    matrix = np.random.default_rng(seed).integers(0, most + 1, size=(n, n))
    matrix[0, 1] = 1
    return Demands(matrix)


def over_shortest_paths(
    topology: Topology, collective: Collective, *, rounds: int | None = None, chunks: int = 60
) -> ExchangeSchedule:
    routes = split_over_shortest_paths(topology, collective, max_chunks=chunks)
    if rounds is None:
        return hop_synchronous(topology, collective, routes)
    return pipelined(topology, collective, routes, rounds=rounds)


def sends_of(schedule: ExchangeSchedule) -> list[Send]:
    """(shard, link, step, low, high) of every send."""
    sends = schedule.sends
    return [
        (int(sends.shard[i]), int(sends.link[i]), t, int(sends.low[i]), int(sends.high[i]))
        for t in range(sends.n_steps)
        for i in range(int(sends.step_offset[t]), int(sends.step_offset[t + 1]))
    ]


def with_sends(schedule: ExchangeSchedule, sends: list[Send]) -> ExchangeSchedule:
    """The same shards with other sends, in as many steps or more."""
    steps = steps_from_sends(
        Direction.BROADCAST,
        schedule.n_ranks,
        schedule.n_chunks,
        sends,
        homes=schedule.sources.tolist(),
        n_steps=max([schedule.n_steps, *(send[2] + 1 for send in sends)]),
    )
    return ExchangeSchedule(steps, schedule.targets)


def is_correct(topology: Topology, collective: Collective, schedule: ExchangeSchedule) -> bool:
    """Whether every pair's shard arrives whole, once, by usable links, and nothing before it has come."""
    demands = collective.pair_demands.matrix.tolist()
    n = collective.n_ranks
    expected = Counter((i, j) for i in range(n) for j in range(n) if i != j and demands[i][j])
    pairs = list(zip(schedule.sources.tolist(), schedule.targets.tolist(), strict=True))
    if schedule.n_ranks != n or Counter(pairs) != expected:
        return False
    place = {
        (shard, chunk): collective.ranks[source]
        for shard, (source, _) in enumerate(pairs)
        for chunk in range(schedule.n_chunks)
    }
    goal = [collective.ranks[target] for _, target in pairs]
    by_step: dict[int, list[Send]] = {}
    for send in sends_of(schedule):
        by_step.setdefault(send[2], []).append(send)
    for step in sorted(by_step):
        arrived = {}
        for shard, link, _, low, high in by_step[step]:
            if link >= topology.n_links:
                return False
            tail, head = int(topology.tails[link]), int(topology.heads[link])
            if tail == head or not (topology.is_compute[tail] and topology.is_compute[head]):
                return False
            for chunk in range(low, high):
                if place.pop((shard, chunk), None) != tail or tail == goal[shard]:
                    return False
                arrived[shard, chunk] = head
        place |= arrived
    return all(node == goal[shard] for (shard, _), node in place.items())


def seconds_per_byte(topology: Topology, collective: Collective, schedule: ExchangeSchedule) -> Fraction:
    """By Fractions, send by send."""
    demands = collective.pair_demands.matrix
    units = int(max(demands.sum(axis=0).max(), demands.sum(axis=1).max()))
    busy: dict[int, Counter] = {}
    for shard, link, step, low, high in sends_of(schedule):
        weight = int(demands[schedule.sources[shard], schedule.targets[shard]])
        amount = Fraction(weight * (high - low), schedule.n_chunks * units)
        used = busy.setdefault(step, Counter())
        used["link", link] += amount / int(topology.bandwidths[link])
        for side, node in (("out", topology.tails[link]), ("in", topology.heads[link])):
            cap = int(topology.injection_bytes_per_s[node])
            if cap:
                used[side, int(node)] += amount / cap
    return sum((max(used.values()) for used in busy.values()), Fraction(0))
