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


@dataclass(frozen=True)
class SteinerTreeFinder:
    """Minimum spanning trees of terminal sets under path distances.

    Parameters
    ----------
    network : PairNetwork
        Symmetric.
    """

    network: PairNetwork

    def spanning_tree(self, lengths: Sequence[Number], terminals: Iterable[int]) -> FabricTree | None:
        """The minimum spanning tree of `terminals`; None if they are not connected.

        Parameters
        ----------
        lengths : sequence of number, length m
            Per pair, not negative, equal for reverse pairs; integers are added up exactly.
        terminals : iterable of int

        Notes
        -----
        Mehlhorn's method: distances from the nearest terminal to every node, then Kruskal over the pairs that
        join two terminals' regions. Switch leaves are cut off.
        """
        distance, region, arrival = self._regions(lengths, terminals)
        tails, heads = self.network.tails, self.network.heads
        bridges = sorted(
            (distance[tails[e]] + lengths[e] + distance[heads[e]], e)
            for e, opposite in enumerate(self.network.reverse)
            if e < opposite and -1 != region[tails[e]] != region[heads[e]] != -1
        )
        leader = list(range(self.network.n_nodes))
        edges = []
        for _, e in bridges:
            one, other = _find(leader, region[tails[e]]), _find(leader, region[heads[e]])
            if one != other:
                leader[one] = other
                there = self._path(arrival, tails[e])
                back = [self.network.reverse[pair] for pair in reversed(self._path(arrival, heads[e]))]
                edges.append((region[tails[e]], region[heads[e]], (*there, e, *back)))
        tree = FabricTree(tuple(_without_switch_leaves(edges, frozenset(self.network.ranks))))
        spanned = {node for one, other, _ in tree.edges for node in (one, other)}
        is_tree = len(tree.edges) == len(spanned) - 1
        return tree if spanned.issuperset(self.network.ranks) and is_tree else None

    def _regions(
        self, lengths: Sequence[Number], terminals: Iterable[int]
    ) -> tuple[list[Number], list[int], list[int]]:
        n = self.network.n_nodes
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
            for pair, head in self.network.adjacency[node]:
                if far + lengths[pair] < distance[head]:
                    distance[head] = far + lengths[pair]
                    region[head], arrival[head] = region[node], pair
                    heapq.heappush(heap, (distance[head], head))
        return distance, region, arrival

    def _path(self, arrival: Sequence[int], node: int) -> list[int]:
        """Pairs from the terminal of `node`'s region to `node`."""
        path = []
        while arrival[node] >= 0:
            path.append(arrival[node])
            node = self.network.tails[arrival[node]]
        return path[::-1]


def _find(leader: list[int], node: int) -> int:
    while leader[node] != node:
        leader[node] = leader[leader[node]]
        node = leader[node]
    return node


def _without_switch_leaves(
    edges: list[tuple[int, int, tuple[int, ...]]], ranks: frozenset[int]
) -> list[tuple[int, int, tuple[int, ...]]]:
    while True:
        degree = Counter(node for one, other, _ in edges for node in (one, other))
        kept = [
            edge for edge in edges if all(node in ranks or degree[node] > 1 for node in (edge[0], edge[1]))
        ]
        if len(kept) == len(edges):
            return kept
        edges = kept
