"""Exhaustive search for schedules on tiny fabrics: breadth first over everything that nodes can hold."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

from treadle.topologies.topology import Topology


def schedule_exists(
    topology: Topology,
    homes: Sequence[int],
    *,
    chunks: int,
    rounds: Sequence[int],
    capacity: Sequence[int],
) -> bool:
    """Whether all chunks can reach all nodes; `capacity` is chunks per link and round.

    A state is what every node holds. Holding more never hurts, so each link carries as much of what its head
    lacks as it can; which of it is tried in every way.
    """
    n = topology.n_nodes
    everything = frozenset(range(len(homes) * chunks))
    start = tuple(frozenset(k for k in everything if homes[k // chunks] == node) for node in range(n))
    links = [(int(u), int(w)) for u, w in zip(topology.tails, topology.heads, strict=True)]
    states = {start}
    for count in rounds:
        states = {after for state in states for after in _next(state, links, count, capacity)}
    return (everything,) * n in states


def _next(
    state: tuple[frozenset[int], ...],
    links: list[tuple[int, int]],
    count: int,
    capacity: Sequence[int],
) -> set[tuple[frozenset[int], ...]]:
    after: list[set[frozenset[int]]] = []
    for node, held in enumerate(state):
        gains = {held}
        for link, (tail, head) in enumerate(links):
            if head == node and tail != node:
                useful = sorted(state[tail] - held)
                choices = list(combinations(useful, min(len(useful), count * capacity[link])))
                gains = {gain | set(choice) for gain in gains for choice in choices}
        after.append(gains)
    return set(product(*after))
