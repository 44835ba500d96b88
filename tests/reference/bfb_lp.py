"""Breadth-first broadcast, slowly: distances by sets, the linear program by HiGHS, Theorem 14 by chunks."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from treadle.schedules.steps.steps import Steps
from treadle.topologies.topology import Topology


def distances(topology: Topology) -> list[dict[int, int]]:
    """distances(...)[v][u]: hops from v to u."""
    out = defaultdict(set)
    for tail, head in zip(topology.tails.tolist(), topology.heads.tolist(), strict=True):
        out[tail].add(head)
    table = []
    for v in range(topology.n_nodes):
        found, frontier, step = {v: 0}, {v}, 0
        while frontier:
            step += 1
            frontier = {w for u in frontier for w in out[u]} - found.keys()
            found |= dict.fromkeys(frontier, step)
        table.append(found)
    return table


def jobs(topology: Topology, u: int, t: int) -> dict[int, list[int]]:
    """Sources at distance t from u, each with the links into u whose tail is at distance t - 1."""
    table = distances(topology)
    return {
        v: [
            int(e)
            for e in np.flatnonzero(topology.heads == u)
            if topology.tails[e] != u and table[v].get(int(topology.tails[e])) == t - 1
        ]
        for v in range(topology.n_nodes)
        if table[v].get(u) == t
    }


def breaches_of_theorem_14(topology: Topology, steps: Steps) -> list[str]:
    """What keeps an allgather from being breadth-first: a wrong step, or chunks not received exactly once."""
    table = distances(topology)
    received: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    faults = []
    columns = (steps.shard, steps.link, steps.send_steps(), steps.low, steps.high)
    for v, e, t, low, high in zip(*(column.tolist() for column in columns), strict=True):
        w, u = int(topology.tails[e]), int(topology.heads[e])
        if not table[v][u] == table[v][w] + 1 == t + 1:
            faults.append(f"shard {v} over {w}->{u} in step {t}")
        received[v, u] += range(low, high)
    nodes = range(topology.n_nodes)
    return faults + [
        f"shard {v} at {u}: {sorted(received[v, u])}"
        for v in nodes
        for u in nodes
        if u != v and sorted(received[v, u]) != list(range(steps.n_chunks))
    ]
