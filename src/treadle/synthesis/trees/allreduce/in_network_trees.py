"""Shortest trees that use operations of switches which work for ranks that ask.

Operations have a direction, so the shortest tree is a minimum arborescence (Chu and Liu 1965; Edmonds 1967)
over path distances rather than a spanning tree. Source: docs/algorithms/allreduce.md, "For ranks that ask".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.synthesis.trees.allreduce.pair_network import PairNetwork, SwitchGroup
from treadle.synthesis.trees.allreduce.separation import Number
from treadle.synthesis.trees.allreduce.steiner_trees import FabricTree

_Numbers = NDArray[Any]
_Edge = tuple[int, int, tuple[int, ...]]


@dataclass(frozen=True)
class InNetworkTreeFinder:
    """Minimum arborescences of ranks, branching switches and groups under path distances.

    Parameters
    ----------
    network : PairNetwork
    """

    network: PairNetwork

    def tree(
        self,
        lengths: Sequence[Number],
        switches: Sequence[int],
        groups: Sequence[SwitchGroup],
        weights: Sequence[Number] = (),
    ) -> FabricTree | None:
        """The shortest tree that visits all of `switches` and uses an operation of each of `groups`.

        Parameters
        ----------
        lengths : sequence of number, length m
            Per pair, not negative: floats, or integers of any size.
        switches : sequence of int
            Branching switches.
        groups : sequence of SwitchGroup
        weights : sequence of number, optional
            What it costs to have the root at each rank; default nothing.

        Returns
        -------
        FabricTree or None
            With its root; None if the ranks are not connected. Switches and groups that serve no rank, and
            groups that serve one, are taken out again.

        Notes
        -----
        A group is a node that members enter over their own link and that leads to all members at no cost,
        since the links of a group are crossed whatever its operation serves. A source before all ranks, by
        arcs so dear that just one is used, leaves the choice of the root open.
        """
        terminals = [*self.network.ranks, *switches]
        k, n = len(terminals), len(terminals) + len(groups) + 1
        lowest = min(weights, default=0)
        dear = (sum(lengths) + max(weights, default=0) - lowest + 1) * (n + 1)
        nowhere = dear * (n + 1)
        kind = object if all(isinstance(length, int) for length in lengths) else np.float64
        distance, before = self._distances(np.array(lengths, dtype=kind), nowhere)
        cost = np.full((n, n), nowhere, dtype=kind)
        cost[:k, :k] = distance[np.ix_(terminals, terminals)]
        place = {node: i for i, node in enumerate(terminals)}
        for i, group in enumerate(groups, start=k):
            members = [place[v] for v in group.members]
            cost[members, i] = [lengths[pair] for pair in group.up]
            cost[i, members] = 0
        for rank in range(len(self.network.ranks)):
            cost[n - 1, rank] = dear + (weights[rank] - lowest if weights else 0)
        parents = minimum_arborescence(cost, n - 1, nowhere)
        if parents.count(n - 1) != 1 or any(
            cost[parent, i] >= nowhere for i, parent in enumerate(parents[:-1])
        ):
            return None
        names = [*terminals, *(group.node for group in groups)]
        edges = [
            (names[parent], names[i], self._pairs(names[parent], names[i], before))
            for i, parent in enumerate(parents[:-1])
            if parent != n - 1
        ]
        return self._trimmed(edges, names[parents.index(n - 1)], groups)

    def _distances(self, lengths: _Numbers, nowhere: Number) -> tuple[_Numbers, NDArray[np.int64]]:
        """Path lengths through nodes that are no ranks, and the last pair of each path (Floyd, Warshall)."""
        n, network = self.network.n_nodes, self.network
        distance = np.full((n, n), nowhere, dtype=lengths.dtype)
        before = np.full((n, n), -1, dtype=np.int64)
        distance[network.tails, network.heads] = lengths
        before[network.tails, network.heads] = np.arange(network.n_pairs)
        for node in sorted({*range(n)} - {*network.ranks}):
            through = distance[:, node, None] + distance[None, node, :]
            shorter = (through < distance).astype(np.bool_)
            distance[shorter] = through[shorter]
            before[shorter] = np.broadcast_to(before[node], (n, n))[shorter]
        return distance, before

    def _pairs(self, one: int, other: int, before: NDArray[np.int64]) -> tuple[int, ...]:
        """The path from `one` to `other`; of an operation the pair of one of its ends."""
        for group in self.network.groups:
            if group.node == other:
                return (group.up[group.members.index(one)],)
            if group.node == one:
                return (group.down[group.members.index(other)],)
        pairs: list[int] = []
        while other != one:
            pairs.append(int(before[one, other]))
            other = self.network.tails[pairs[-1]]
        return tuple(pairs[::-1])

    def _trimmed(self, edges: list[_Edge], root: int, groups: Sequence[SwitchGroup]) -> FabricTree:
        ranks = frozenset(self.network.ranks)
        while True:
            parents = {one for one, _, _ in edges}
            kept = [edge for edge in edges if edge[1] in ranks or edge[1] in parents]
            if len(kept) == len(edges):
                break
            edges = kept
        used = []
        for group in groups:
            outward = [edge for edge in edges if edge[0] == group.node]
            inward = [edge for edge in edges if edge[1] == group.node]
            # an operation that serves one member is a plain path through the switch
            if len(outward) == 1:
                joined = inward[0][0], outward[0][1], inward[0][2] + outward[0][2]
                edges = [edge for edge in edges if edge not in (inward[0], outward[0])] + [joined]
            elif outward:
                used.append((group, inward[0][0]))
        return FabricTree(tuple(edges), root, tuple(used))


def minimum_arborescence(cost: _Numbers, root: int, nowhere: Number) -> list[int]:
    """The cheapest arcs that lead from the root to every node (Chu, Liu, Edmonds).

    Parameters
    ----------
    cost : array of float or int, shape (n, n)
        Of the arc from row to column.
    root : int
    nowhere : number
        The cost of arcs that do not exist: more than all others together.

    Returns
    -------
    list of int
        Each node's parent, -1 for the root. Arcs that do not exist are used where nothing else is left.

    Examples
    --------
    >>> cost = np.full((3, 3), 100)
    >>> cost[0, 1], cost[1, 2], cost[2, 1], cost[0, 2] = 5, 1, 1, 7
    >>> minimum_arborescence(cost, 0, 100)
    [-1, 0, 1]
    """
    n = len(cost)
    cost = cost.copy()
    # dearer than no arc at all, so that no node is entered from itself
    np.fill_diagonal(cost, 2 * nowhere)
    best: NDArray[np.int64] = cost.argmin(axis=0).astype(np.int64)
    least = cost[best, np.arange(n)]
    best[root] = -1
    parents: list[int] = best.tolist()
    circle = _circle(parents)
    if not circle:
        return parents
    # one node for the circle, numbered last; entering it at v saves the arc that enters v within it
    outside = np.setdiff1d(np.arange(n), circle)
    inner = np.array(circle)
    entering = cost[np.ix_(outside, inner)] - least[inner]
    leaving = cost[np.ix_(inner, outside)]
    smaller = np.full((len(outside) + 1, len(outside) + 1), nowhere, dtype=cost.dtype)
    smaller[:-1, :-1] = cost[np.ix_(outside, outside)]
    smaller[:-1, -1], smaller[-1, :-1] = entering.min(axis=1), leaving.min(axis=0)
    found = minimum_arborescence(smaller, int(np.flatnonzero(outside == root)[0]), nowhere)
    for i, parent in enumerate(found[:-1]):
        if parent == len(outside):
            parents[outside[i]] = int(inner[leaving[:, i].argmin()])
        elif parent >= 0:
            parents[outside[i]] = int(outside[parent])
    entry = int(inner[entering[found[-1]].argmin()])
    parents[entry] = int(outside[found[-1]])
    return parents


def _circle(parents: Sequence[int]) -> list[int]:
    """The nodes of some circle, empty if there is none."""
    seen = [-1] * len(parents)
    for start in range(len(parents)):
        node = start
        while node >= 0 and seen[node] < 0:
            seen[node] = start
            node = parents[node]
        if node >= 0 and seen[node] == start:
            circle = [node]
            while parents[circle[-1]] != node:
                circle.append(parents[circle[-1]])
            return circle
    return []
