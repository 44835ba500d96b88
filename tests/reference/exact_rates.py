"""Exact optima of allreduce and all-to-all on a few nodes: programs with every cut, or a flow per source."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

from reference.exact_simplex import maximum
from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology


def _links(topology: Topology) -> list[tuple[int, int, int]]:
    ends = zip(topology.tails.tolist(), topology.heads.tolist(), topology.bandwidths.tolist(), strict=True)
    return [(tail, head, b) for tail, head, b in ends if tail != head]


def allreduce_rate(topology: Topology, ranks: tuple[int, ...]) -> Fraction:
    """(B.5) with all cuts: bandwidth for out-trees and in-trees of each link, rates of roots.

    Switches and forwarders pass on what they receive; none copies or sums.
    """
    links, n = _links(topology), topology.n_nodes
    m = len(links)
    column = {rank: 2 * m + place for place, rank in enumerate(ranks)}
    rows: list[dict[int, int]] = [{e: 1, m + e: 1} for e in range(m)]
    rhs = [b for _, _, b in links]
    for node in range(n):
        if node not in ranks:
            for first in (0, m):
                row: dict[int, int] = {}
                for e, (tail, head, _) in enumerate(links):
                    if node in (tail, head):
                        row[first + e] = 1 if head == node else -1
                rows += [row, {j: -a for j, a in row.items()}]
                rhs += [0, 0]
    for size in range(1, n):
        for chosen in combinations(range(n), size):
            inside = set(chosen)
            roots = [rank for rank in ranks if rank in inside]
            if not roots or len(roots) == len(ranks):
                continue
            out = [e for e, (tail, head, _) in enumerate(links) if tail in inside and head not in inside]
            into = [e for e, (tail, head, _) in enumerate(links) if tail not in inside and head in inside]
            for used, first in ((out, 0), (into, m)):
                rows.append({**{column[root]: 1 for root in roots}, **{first + e: -1 for e in used}})
                rhs.append(0)
    return maximum([0] * (2 * m) + [1] * len(ranks), rows, rhs)[0]


def alltoall_rate(topology: Topology, collective: Collective) -> Fraction:
    """F with a flow for every source; no node keeps less of it than F times what is meant for it."""
    links = _links(topology)
    m = len(links)
    demand = collective.pair_demands.between.tolist()
    senders = [i for i, row in enumerate(demand) if any(row)]
    rows: list[dict[int, int]] = [{1 + place * m + e: 1 for place in range(len(senders))} for e in range(m)]
    rhs = [b for _, _, b in links]
    for place, sender in enumerate(senders):
        wanted = dict(zip(collective.ranks, demand[sender], strict=True))
        for node in range(topology.n_nodes):
            if node == collective.ranks[sender]:
                continue
            row = {0: wanted.get(node, 0)}
            for e, (tail, head, _) in enumerate(links):
                if node in (tail, head):
                    row[1 + place * m + e] = 1 if tail == node else -1
            rows.append(row)
            rhs.append(0)
    return maximum([1] + [0] * (m * len(senders)), rows, rhs)[0]
