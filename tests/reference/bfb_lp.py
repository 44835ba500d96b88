"""Breadth-first broadcast, slowly: distances by sets, the linear program by HiGHS, Theorem 14 by chunks."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog

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


def lp_time(
    topology: Topology, usable: dict[int, list[int]], *, shard_bytes: float = 1.0, latency: bool = False
) -> float:
    """Optimum of (3.1), or with latencies of (A.12) without removed links, in seconds."""
    links = sorted({e for options in usable.values() for e in options})
    pairs = [(v, e) for v, options in usable.items() for e in options]
    cost = np.zeros(len(pairs) + 1)
    cost[-1] = 1
    upper = np.zeros((len(links), len(pairs) + 1))
    equal = np.zeros((len(usable), len(pairs) + 1))
    rows = {v: i for i, v in enumerate(usable)}
    for column, (v, e) in enumerate(pairs):
        upper[links.index(e), column] = shard_bytes / topology.bandwidths[e]
        equal[rows[v], column] = 1
    upper[:, -1] = -1
    limit = [-topology.latencies_ns[e] * 1e-9 if latency else 0.0 for e in links]
    result = linprog(cost, upper, limit, equal, np.ones(len(usable)), method="highs")
    return float(result.fun) if result.status == 0 else float("inf")


def lp_loads(topology: Topology) -> list[Fraction]:
    """Largest optimum of (3.1) per step, links of bandwidth 1, as fractions with small denominators."""
    loads = []
    step = 1
    while True:
        problems = [jobs(topology, u, step) for u in range(topology.n_nodes)]
        times = [lp_time(topology, usable) for usable in problems if usable]
        if not times:
            return loads
        exact = [Fraction(time).limit_denominator(len(topology.tails)) for time in times]
        assert all(abs(float(x) - time) < 1e-7 for x, time in zip(exact, times, strict=True))
        loads.append(max(exact))
        step += 1


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
