"""Slow, readable optimum of allgather: networkx max-flow under Dinkelbach's iteration, and all cuts.

Dissertation, section 4.4: 1/x* is the largest ratio of the compute nodes inside a vertex set S, that leaves
out some compute node, to the bandwidth that leaves S.
"""

from dataclasses import replace
from fractions import Fraction

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
