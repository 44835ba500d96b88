"""Shortest trees that use GPU-initiated in-network operations.

Operations have a direction, so the shortest tree is a minimum arborescence (Chu and Liu 1965; Edmonds 1967)
over path distances rather than a spanning tree. Source: docs/how-it-works/allreduce-and-groups.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.synthesis.trees.allreduce.pair_network import PairNetwork, SwitchGroup
from treadle.synthesis.trees.allreduce.separation import Number
from treadle.synthesis.trees.allreduce.steiner_trees import FabricTree

_Numbers = NDArray[Any]
_Edge = tuple[int, int, tuple[int, ...]]


def in_network_tree(
    network: PairNetwork,
    lengths: Sequence[Number],
    switches: Sequence[int],
    groups: Sequence[SwitchGroup],
    weights: Sequence[Number] = (),
) -> FabricTree | None:
    """Return the shortest tree that visits all branching `switches` and uses an operation of each group.

    Parameters
    ----------
    network : PairNetwork
    lengths : sequence of number, length m
        Per pair, not negative: floats, or integers of any size.
    switches : sequence of int
    groups : sequence of SwitchGroup
    weights : sequence of number, optional
        Cost of a root at each rank; default 0.

    Returns
    -------
    FabricTree or None
        With its root; None if the ranks are not connected. Switches and groups that are useless for all
        ranks, and groups useful for one only, are removed again.

    Notes
    -----
    A group is a node that members enter over their own link and that leads to all members at no cost,
    since the links of a group are crossed by any of its operations. A source before all ranks, by
    arcs so expensive that exactly one is used, leaves the choice of the root open.
    """
    terminals = [*network.ranks, *switches]
    k, n = len(terminals), len(terminals) + len(groups) + 1
    lowest = min(weights, default=0)
    expensive = (sum(lengths) + max(weights, default=0) - lowest + 1) * (n + 1)
    nowhere = expensive * (n + 1)
    kind = object if all(isinstance(length, int) for length in lengths) else np.float64
    distance, before = _distances(network, np.array(lengths, dtype=kind), nowhere)
    cost = np.full((n, n), nowhere, dtype=kind)
    cost[:k, :k] = distance[np.ix_(terminals, terminals)]
    index = {node: i for i, node in enumerate(terminals)}
    for i, group in enumerate(groups, start=k):
        members = [index[v] for v in group.members]
        cost[members, i] = [lengths[pair] for pair in group.up]
        cost[i, members] = 0
    for rank in range(len(network.ranks)):
        cost[n - 1, rank] = expensive + (weights[rank] - lowest if weights else 0)
    parents = minimum_arborescence(cost, n - 1, nowhere)[:-1]
    if parents.count(n - 1) != 1 or any(cost[parent, i] >= nowhere for i, parent in enumerate(parents)):
        return None
    names = [*terminals, *(group.node for group in groups)]
    edges = [
        (names[parent], names[i], _pairs(network, names[parent], names[i], before))
        for i, parent in enumerate(parents)
        if parent != n - 1
    ]
    return _trimmed(network, edges, names[parents.index(n - 1)], groups)


def _distances(
    network: PairNetwork, lengths: _Numbers, nowhere: Number
) -> tuple[_Numbers, NDArray[np.int64]]:
    """Return path lengths through switches, and the last pair of each path (Floyd, Warshall)."""
    n = network.n_nodes
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


def _pairs(network: PairNetwork, one: int, other: int, before: NDArray[np.int64]) -> tuple[int, ...]:
    """Return the path from `one` to `other`; for an operation the pair of one of its ends."""
    for group in network.groups:
        if group.node == other:
            return (group.up[group.members.index(one)],)
        if group.node == one:
            return (group.down[group.members.index(other)],)
    pairs: list[int] = []
    while other != one:
        pairs.append(int(before[one, other]))
        other = network.tails[pairs[-1]]
    return tuple(pairs[::-1])


def _trimmed(
    network: PairNetwork, edges: list[_Edge], root: int, groups: Sequence[SwitchGroup]
) -> FabricTree:
    count = 0
    while count != len(edges):
        count, parents = len(edges), {one for one, _, _ in edges}
        edges = [edge for edge in edges if edge[1] in network.ranks or edge[1] in parents]
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
    """Return the cheapest arcs that lead from the root to every node (Chu, Liu, Edmonds).

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
    # more expensive than no arc at all, so that no node is entered from itself
    np.fill_diagonal(cost, 2 * nowhere)
    best: NDArray[np.int64] = cost.argmin(axis=0).astype(np.int64)
    least = cost[best, np.arange(n)]
    best[root] = -1
    parents: list[int] = best.tolist()
    cycle = _cycle(parents)
    if not cycle:
        return parents
    # one node for the cycle, numbered last; entering it at v saves the arc that enters v within it
    outside = np.setdiff1d(np.arange(n), cycle)
    inner = np.array(cycle)
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


def _cycle(parents: Sequence[int]) -> list[int]:
    """Return the nodes of some cycle, empty if none exists."""
    seen = [-1] * len(parents)
    for start in range(len(parents)):
        node = start
        while node >= 0 and seen[node] < 0:
            seen[node] = start
            node = parents[node]
        if node >= 0 and seen[node] == start:
            cycle = [node]
            while parents[cycle[-1]] != node:
                cycle.append(parents[cycle[-1]])
            return cycle
    return []
