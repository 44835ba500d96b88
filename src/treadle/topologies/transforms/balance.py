"""Largest capacities below given ones that balance some nodes."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from treadle.arrays import Int32Array, Int64Array


def balanced_capacities(
    tails: Int32Array,
    heads: Int32Array,
    capacities: Int64Array,
    nodes: Sequence[int],
    *,
    kept: Int64Array | None = None,
) -> Int64Array:
    """Lower capacities as little as possible in total so that each of `nodes` has as much in as out.

    Parameters
    ----------
    tails, heads : arrays of int32, shape (m,)
    capacities : array of int64, shape (m,)
    nodes : sequence of int
        Nodes to balance; the others may stay as they are.
    kept : array of int64, shape (m,), optional
        What each link is to keep at least; itself balanced. Default: nothing.

    Returns
    -------
    array of int64, shape (m,)

    Notes
    -----
    What is taken away is a flow from the nodes with more egress to those with more ingress, where the nodes
    that need no balance count as one; taking away as little as possible makes it a minimum-cost flow of cost
    1 per link, which successive shortest paths solve in exact integers, a Dijkstra search per augmentation.
    """
    index = {node: i for i, node in enumerate(nodes)}
    free = len(index)
    starts = [index.get(node, free) for node in tails.tolist()]
    ends = [index.get(node, free) for node in heads.tolist()]
    units: list[int] = capacities.tolist()
    surplus = [0] * (free + 1)
    for start, end, amount in zip(starts, ends, units, strict=True):
        surplus[start] += amount
        surplus[end] -= amount
    room = units if kept is None else (capacities - kept).tolist()
    removed = _least_removal(starts, ends, room, surplus)
    return capacities - np.array(removed, dtype=np.int64)


def _least_removal(
    tails: list[int], heads: list[int], capacities: list[int], surplus: list[int]
) -> list[int]:
    """Return capacity to remove from each link: the cheapest flow out of positive `surplus` into negative."""
    n, m = len(surplus), len(tails)
    starts = tails + heads  # of arc i and of arc m + i
    residual = capacities + [0] * m  # arc m + i undoes arc i
    outgoing: list[list[tuple[int, int, int]]] = [[] for _ in range(n)]  # (arc, head, cost)
    for link, (tail, head) in enumerate(zip(tails, heads, strict=True)):
        if tail != head:
            outgoing[tail].append((link, head, 1))
            outgoing[head].append((link + m, tail, -1))
    potential = [0] * n
    while any(value > 0 for value in surplus):
        distance, entered = _nearest(surplus, outgoing, residual, potential)
        target = min((v for v in range(n) if surplus[v] < 0 and v in distance), key=lambda v: distance[v])
        # Beyond the target all labels may grow by its distance: reduced costs stay non-negative.
        potential = [
            p + min(distance.get(v, distance[target]), distance[target]) for v, p in enumerate(potential)
        ]
        arcs: list[int] = []
        node = target
        while entered[node] >= 0:
            arcs.append(entered[node])
            node = starts[entered[node]]
        amount = min(surplus[node], -surplus[target], *(residual[arc] for arc in arcs))
        assert amount > 0
        for arc in arcs:
            residual[arc] -= amount
            residual[(arc + m) % (2 * m)] += amount
        surplus[node] -= amount
        surplus[target] += amount
    return residual[m:]


def _nearest(
    surplus: list[int],
    outgoing: list[list[tuple[int, int, int]]],
    residual: list[int],
    potential: list[int],
) -> tuple[dict[int, int], dict[int, int]]:
    """Dijkstra from all nodes with positive surplus, under reduced costs, up to the first with negative.

    Returns the distances of the settled nodes and the arc by which each was entered (-1 at a source).
    """
    sources = [v for v, value in enumerate(surplus) if value > 0]
    best = dict.fromkeys(sources, 0)
    entered = dict.fromkeys(sources, -1)
    settled: dict[int, int] = {}
    queue = [(0, v) for v in sources]
    while queue:
        length, node = heapq.heappop(queue)
        if node in settled:
            continue
        settled[node] = length
        if surplus[node] < 0:
            break
        for arc, head, cost in outgoing[node]:
            if residual[arc] and head not in settled:
                longer = length + cost + potential[node] - potential[head]
                if longer < best.get(head, longer + 1):
                    best[head] = longer
                    entered[head] = arc
                    heapq.heappush(queue, (longer, head))
    return settled, entered
