"""Slow, readable optimum of allgather: networkx max-flow under Dinkelbach's iteration, and all cuts.

Dissertation, section 4.4: 1/x* is the largest ratio of the compute nodes inside a vertex set S, that leaves
out some compute node, to the bandwidth that leaves S.
"""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import networkx as nx

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.topologies.topology import Topology


def _capacities(topology: Topology) -> dict[tuple[int, int], int]:
    total: dict[tuple[int, int], int] = {}
    for tail, head, bandwidth in zip(
        topology.tails.tolist(), topology.heads.tolist(), topology.bandwidths.tolist(), strict=True
    ):
        if tail != head:
            total[tail, head] = total.get((tail, head), 0) + bandwidth
    return total


def cut_bandwidth(topology: Topology, inside: set[int]) -> int:
    """Bandwidth of the links that leave the node set `inside`, bytes/s."""
    return sum(b for (u, v), b in _capacities(topology).items() if u in inside and v not in inside)


def cut_rate(topology: Topology, inside: set[int]) -> Fraction:
    """Bandwidth per root that the cut out of `inside` allows, bytes/s."""
    ranks = sum(1 for v in topology.compute_nodes.tolist() if v in inside)
    return Fraction(cut_bandwidth(topology, inside), ranks)


def optimal_rate(topology: Topology) -> tuple[Fraction, set[int]]:
    """Exact x*, bytes/s per root, and the node set of a cut that attains it.

    Every rate tried belongs to a cut, so that it bounds x* from above; a cut that forbids it is strictly
    worse, so that the iteration ends. Rates are scaled to integers: capacities b * q and p for x = p / q.
    """
    ranks = topology.compute_nodes.tolist()
    capacities = _capacities(topology)
    best: set[int] = {ranks[0]}
    rate = cut_rate(topology, best)
    while rate:
        violated = _violated_cut(capacities, ranks, rate)
        if violated is None:
            break
        lower = cut_rate(topology, violated)
        assert lower < rate
        rate, best = lower, violated
    return rate, best


def _violated_cut(
    capacities: dict[tuple[int, int], int], ranks: list[int], rate: Fraction
) -> set[int] | None:
    """Some node set with a rate below `rate`, or None if every sink gets all of it."""
    for sink in ranks:
        graph = nx.DiGraph()
        for (u, v), bandwidth in capacities.items():
            graph.add_edge(u, v, capacity=bandwidth * rate.denominator)
        for rank in ranks:
            graph.add_edge("s", rank, capacity=rate.numerator)
        value, (source_side, _) = nx.minimum_cut(graph, "s", sink, flow_func=nx.algorithms.flow.preflow_push)
        if value < rate.numerator * len(ranks):
            return set(source_side) - {"s"}
    return None


def optimal_algbw(topology: Topology) -> Fraction:
    """Exact allgather algbw, N * x*, bytes/s."""
    return len(topology.compute_nodes) * optimal_rate(topology)[0]


def optimal_rate_by_all_cuts(topology: Topology) -> Fraction:
    """x* by enumerating every vertex set; for at most about 12 nodes."""
    nodes = range(topology.n_nodes)
    ranks = set(topology.compute_nodes.tolist())
    rates = [
        cut_rate(topology, set(inside))
        for size in range(1, topology.n_nodes)
        for inside in combinations(nodes, size)
        if ranks & set(inside) and ranks - set(inside)
    ]
    return min(rates)


def algbw_by_all_cuts(topology: Topology, collective: Collective) -> Fraction:
    """Exact optimum of any spanning collective but allreduce, bytes/s, by enumerating every vertex set.

    A set that leaves out some rank must let out what its ranks have to give: all of it is the size.
    """
    kind = collective.kind
    if kind in (CollectiveKind.REDUCE_SCATTER, CollectiveKind.REDUCE):
        scatters = kind is CollectiveKind.REDUCE_SCATTER
        turned = CollectiveKind.ALLGATHER if scatters else CollectiveKind.BROADCAST
        return algbw_by_all_cuts(topology.transpose(), replace(collective, kind=turned))
    n = collective.n_ranks
    weights = list(collective.weights or [1] * n)
    if kind is CollectiveKind.BROADCAST:
        weights = [int(rank == collective.root) for rank in range(n)]
    links = list(_capacities(topology).items())
    best: Fraction | None = None
    for mask in range(1, 2**topology.n_nodes):
        inside = [mask >> node & 1 for node in range(topology.n_nodes)]
        weight = sum(w for w, node in zip(weights, collective.ranks, strict=True) if inside[node])
        if not weight or all(inside[node] for node in collective.ranks):
            continue
        rate = Fraction(sum(b for (u, v), b in links if inside[u] and not inside[v]), weight)
        best = rate if best is None else min(best, rate)
    assert best is not None
    return best * sum(weights)
