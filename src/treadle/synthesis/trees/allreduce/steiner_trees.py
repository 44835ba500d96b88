"""Shortest trees that connect terminals through the fabric, under given pair lengths.

A shortest Steiner tree that may branch at some switches is sought by subsets of these (`undirected_packing`).
For a given subset the spanning tree under path distances comes from one search (Mehlhorn's method).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from treadle.synthesis.trees.allreduce.pair_network import PairNetwork, SwitchGroup
from treadle.synthesis.trees.allreduce.separation import Number


@dataclass(frozen=True)
class FabricTree:
    """An undirected tree whose nodes are ranks, branching switches and groups.

    Parameters
    ----------
    edges : tuple of (one, other, pairs)
        `pairs` is the path from `one` to `other`; the reverse path takes the reverse pairs.
    root : int, optional
        The rank that initiates the `operations`. Without operations any may be it.
    operations : tuple of (group, asker), optional
        The groups among the nodes, and the rank on the root's side of each.
    """

    edges: tuple[tuple[int, int, tuple[int, ...]], ...]
    root: int | None = None
    operations: tuple[tuple[SwitchGroup, int], ...] = ()

    def crossings(self) -> dict[int, int]:
        """Count how often data from the root cross each pair."""
        groups = {group.node for group, _ in self.operations}
        crossed = [
            pair for one, other, pairs in self.edges if groups.isdisjoint((one, other)) for pair in pairs
        ]
        for group, asker in self.operations:
            crossed += [group.up[group.members.index(asker)], *group.down]
        return dict(Counter(crossed))

    def usage(self, network: PairNetwork) -> dict[int, int]:
        """Count how often the tree crosses each pair; the lower of a pair and its reverse represents both."""
        count = Counter[int]()
        for pair, often in self.crossings().items():
            count[min(pair, network.reverse[pair])] += often
        return dict(count)

    def length(self, network: PairNetwork, lengths: Sequence[Number]) -> Number:
        """The sum of the crossings' lengths, equal for reverse pairs."""
        return sum(count * lengths[pair] for pair, count in self.usage(network).items())


def spanning_tree(
    network: PairNetwork, lengths: Sequence[Number], terminals: Iterable[int]
) -> FabricTree | None:
    """Return the minimum spanning tree of `terminals` on a symmetric network; None if they are not connected.

    Lengths are per pair, not negative, equal for reverse pairs; integers are added up exactly.

    Mehlhorn's method: distances from the nearest terminal to every node, then Kruskal over the pairs that
    join two terminals' regions. Switch leaves are removed.
    """
    distance, region, arrival = _regions(network, lengths, terminals)
    tails, heads = network.tails, network.heads

    def path(node: int) -> list[int]:
        """Return the pairs from the terminal of a node's region to the node."""
        pairs = []
        while arrival[node] >= 0:
            pairs.append(arrival[node])
            node = tails[arrival[node]]
        return pairs[::-1]

    bridges = sorted(
        (distance[tails[e]] + lengths[e] + distance[heads[e]], e)
        for e, opposite in enumerate(network.reverse)
        if e < opposite and -1 != region[tails[e]] != region[heads[e]] != -1
    )
    part = {terminal: {terminal} for terminal in region if terminal >= 0}
    edges = []
    for _, e in bridges:
        one, other = region[tails[e]], region[heads[e]]
        if part[one] is not part[other]:
            part[one] |= part[other]
            part.update(dict.fromkeys(part[other], part[one]))
            back = [network.reverse[pair] for pair in reversed(path(heads[e]))]
            edges.append((one, other, (*path(tails[e]), e, *back)))
    count = 0
    while count != len(edges):  # without leaves that are switches
        count, degree = len(edges), Counter(node for edge in edges for node in edge[:2])
        edges = [edge for edge in edges if all(v in network.ranks or degree[v] > 1 for v in edge[:2])]
    spanned = {node for one, other, _ in edges for node in (one, other)}
    is_tree = len(edges) == len(spanned) - 1
    return FabricTree(tuple(edges)) if spanned.issuperset(network.ranks) and is_tree else None


def _regions(
    network: PairNetwork, lengths: Sequence[Number], terminals: Iterable[int]
) -> tuple[list[Number], list[int], list[int]]:
    """Return each node's distance from the nearest terminal, that terminal, and the last pair on the path."""
    n = network.n_nodes
    distance, region, arrival = [float("inf")] * n, [-1] * n, [-1] * n
    heap: list[tuple[Number, int]] = []
    for terminal in terminals:
        distance[terminal], region[terminal] = 0, terminal
        heap.append((0, terminal))
    heapq.heapify(heap)
    while heap:
        far, node = heapq.heappop(heap)
        if far > distance[node]:
            continue
        for pair, head in network.adjacency[node]:
            if far + lengths[pair] < distance[head]:
                distance[head] = far + lengths[pair]
                region[head], arrival[head] = region[node], pair
                heapq.heappush(heap, (distance[head], head))
    return distance, region, arrival
