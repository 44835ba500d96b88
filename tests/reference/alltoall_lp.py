"""All-to-all, slowly: the master program (6)-(9) by scipy, certificates with networkx and exact fractions."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import networkx as nx
import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology


def pairs_of(collective: Collective) -> dict[int, dict[int, int]]:
    """Node -> node -> demand, where it is positive."""
    matrix = collective.pair_demands.matrix.tolist()
    wanted: dict[int, dict[int, int]] = defaultdict(dict)
    for i, source in enumerate(collective.ranks):
        for j, target in enumerate(collective.ranks):
            if i != j and matrix[i][j]:
                wanted[source][target] = matrix[i][j]
    return wanted


def lp_rate(topology: Topology, collective: Collective) -> float:
    """F by the linear program with one flow per source."""
    wanted = pairs_of(collective)
    m = topology.n_links
    rows, columns, values, right = [], [], [], []
    n_rows = 0
    for place, (source, targets) in enumerate(wanted.items()):
        for node in range(topology.n_nodes):
            if node == source:
                continue
            # out - in + F * w <= 0
            for link in range(m):
                sign = int(topology.tails[link] == node) - int(topology.heads[link] == node)
                if sign:
                    rows.append(n_rows)
                    columns.append(1 + place * m + link)
                    values.append(float(sign))
            rows.append(n_rows)
            columns.append(0)
            values.append(float(targets.get(node, 0)))
            right.append(0.0)
            n_rows += 1
    scale = float(topology.bandwidths.max())
    for link in range(m):
        for place in range(len(wanted)):
            rows.append(n_rows)
            columns.append(1 + place * m + link)
            values.append(1.0)
        right.append(float(topology.bandwidths[link]) / scale)
        n_rows += 1
    n_columns = 1 + m * len(wanted)
    matrix = coo_array((values, (rows, columns)), shape=(n_rows, n_columns))
    cost = np.zeros(n_columns)
    cost[0] = -1
    found = linprog(cost, A_ub=matrix.tocsr(), b_ub=right, method="highs")
    assert found.status == 0, found.message
    return float(-found.fun * scale)


def flow_rate(topology: Topology, collective: Collective, by_source: np.ndarray) -> float:
    """What a flow certifies, by exact sums; AssertionError if it delivers too little."""
    wanted = pairs_of(collective)
    load: dict[int, Fraction] = defaultdict(Fraction)
    worst = Fraction(1)
    for rank, source in enumerate(collective.ranks):
        kept: dict[int, Fraction] = defaultdict(Fraction)
        for link in np.flatnonzero(by_source[rank]).tolist():
            amount = Fraction(float(by_source[rank, link]))
            assert amount > 0
            tail, head = int(topology.tails[link]), int(topology.heads[link])
            assert tail != head
            kept[tail] -= amount
            kept[head] += amount
            load[link] += amount
        targets = wanted.get(source, {})
        total = sum(targets.values())
        for node in range(topology.n_nodes):
            if node == source:
                continue
            due = targets.get(node, 0)
            assert kept[node] >= due - Fraction(total, 10**9), (source, node)
            if due:
                worst = min(worst, kept[node] / due)
    return float(worst / max(amount / int(topology.bandwidths[link]) for link, amount in load.items()))


def length_bound(topology: Topology, collective: Collective, lengths: list[int]) -> Fraction:
    """Upper bound on F from link lengths: sum of bandwidth times length over demand times distance."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(topology.n_nodes))
    for tail, head, length in zip(topology.tails.tolist(), topology.heads.tolist(), lengths, strict=True):
        if tail != head and length < graph.get_edge_data(tail, head, {"weight": length + 1})["weight"]:
            graph.add_edge(tail, head, weight=length)
    needed = 0
    for source, targets in pairs_of(collective).items():
        distance = nx.single_source_dijkstra_path_length(graph, source)
        needed += sum(demand * distance[target] for target, demand in targets.items())
    volume = sum(
        bandwidth * length
        for tail, head, bandwidth, length in zip(
            topology.tails.tolist(),
            topology.heads.tolist(),
            topology.bandwidths.tolist(),
            lengths,
            strict=True,
        )
        if tail != head
    )
    return Fraction(volume, needed)
