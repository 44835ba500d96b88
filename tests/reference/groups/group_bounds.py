"""What link lengths prove of groups at once, slowly: all distances, and arborescences one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product

import networkx as nx

from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology

Distances = dict[tuple[int, int], Fraction]
Lightest = Callable[[tuple[int, ...], Distances, int], Fraction | None]


def own_distances(
    topology: Topology, member: Collective, lengths: Sequence[Fraction], *, inwards: bool
) -> Distances:
    """Between ranks of one group, through switches and what its collective names as forwarders (Floyd)."""
    passing = [*topology.switches.tolist(), *member.forwarders]
    found: Distances = {}
    for tail, head, length in zip(topology.tails.tolist(), topology.heads.tolist(), lengths, strict=True):
        pair = (head, tail) if inwards else (tail, head)
        if {tail, head} <= {*passing, *member.ranks}:
            found[pair] = min(length, found.get(pair, length))
    for via in passing:
        for tail, head in product((*passing, *member.ranks), repeat=2):
            if (tail, via) in found and (via, head) in found:
                through = found[tail, via] + found[via, head]
                found[tail, head] = min(through, found.get((tail, head), through))
    return {
        pair: length
        for pair, length in found.items()
        if set(pair) <= set(member.ranks) and pair[0] != pair[1]
    }


def lightest_by_trying(ranks: tuple[int, ...], distances: Distances, root: int) -> Fraction | None:
    """Least weight of all arborescences from a rank; None if there is none."""
    others = [rank for rank in ranks if rank != root]
    best: Fraction | None = None
    for parents in product(ranks, repeat=len(others)):
        above = dict(zip(others, parents, strict=True))
        if any((parent, rank) not in distances for rank, parent in above.items()):
            continue
        weight = sum((distances[parent, rank] for rank, parent in above.items()), Fraction(0))
        if (best is None or weight < best) and all(_leads_to(rank, root, above) for rank in others):
            best = weight
    return best


def _leads_to(rank: int, root: int, above: dict[int, int]) -> bool:
    for _ in range(len(above) + 1):
        if rank == root:
            return True
        rank = above[rank]
    return False


def lightest_by_networkx(ranks: tuple[int, ...], distances: Distances, root: int) -> Fraction | None:
    """The same by networkx's Edmonds."""
    graph = nx.DiGraph()
    graph.add_nodes_from(ranks)
    for (tail, head), length in distances.items():
        if head != root:
            graph.add_edge(tail, head, weight=length)
    try:
        tree = nx.minimum_spanning_arborescence(graph)
    except nx.NetworkXException:
        return None
    return sum((Fraction(length) for _, _, length in tree.edges(data="weight")), Fraction(0))


def group_length_bound(
    topology: Topology, collective: Collective, lengths: Sequence[Fraction], lightest: Lightest
) -> Fraction | None:
    """Upper bound on the algbw of every group; None if there is none."""
    kind, total = collective.kind, Fraction(0)
    for group in range(collective.n_groups or 1):
        member = collective.member(group)
        ways = [
            own_distances(topology, member, lengths, inwards=inwards)
            for inwards, needed in ((False, kind.broadcasts), (True, kind.reduces))
            if needed
        ]
        sums: list[Fraction | None] = []
        for root in member.ranks:
            weights = [lightest(member.ranks, distances, root) for distances in ways]
            known = [weight for weight in weights if weight is not None]
            sums.append(sum(known, Fraction(0)) if len(known) == len(weights) else None)
        if len(ways) == 2:
            found = [one for one in sums if one is not None]
            if len(found) < len(sums):
                return None
            total += min(found)
            continue
        shares = member.shard_weights
        for share, one in zip(shares, sums, strict=True):
            if share and one is None:
                return None
            if share and one is not None:
                total += Fraction(share, sum(shares)) * one
    volume = sum(
        Fraction(int(topology.bandwidths[e])) * lengths[e]
        for e in range(topology.n_links)
        if topology.tails[e] != topology.heads[e]
    )
    return volume / total if total else None
