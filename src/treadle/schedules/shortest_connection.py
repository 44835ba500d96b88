"""Length of the shortest tree on the ranks for given link lengths, for dual certificates of an allreduce."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple, TypeVar

import numpy as np

from treadle.arrays import BoolArray
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology

MAX_BRANCHING_SWITCHES = 12
"""Most switches that branch: every subset of them is tried."""

MAX_ASKING_RANKS = 1024
"""Most ranks with GPU-initiated switches, for which the distances of all pairs are stored."""

_T = TypeVar("_T")

Distances = Mapping[tuple[int, int], int]
"""Length between joined nodes, in both orders."""


class GroupDemand(NamedTuple):
    """A GPU-initiated switch, the nodes of the ranks at it, and their links up and down."""

    switch: int
    members: tuple[int, ...]
    up: Mapping[int, tuple[int, ...]]
    down: Mapping[int, tuple[int, ...]]


def group_demands(topology: Topology, collective: Collective) -> Iterator[GroupDemand]:
    """Yield the groups of all GPU-initiated switches that multicast or aggregate."""
    able = (topology.multicast | topology.aggregation) & ~topology.turns_round
    for switch in np.flatnonzero(able).tolist():
        up, down = defaultdict[int, tuple[int, ...]](tuple), defaultdict[int, tuple[int, ...]](tuple)
        for link in np.flatnonzero(topology.heads == switch).tolist():
            up[int(topology.tails[link])] += (link,)
        for link in np.flatnonzero(topology.tails == switch).tolist():
            down[int(topology.heads[link])] += (link,)
        members = tuple(v for v in collective.ranks if v in up and v in down)
        yield GroupDemand(switch, members, {v: up[v] for v in members}, {v: down[v] for v in members})


def shortest_connection(
    topology: Topology, collective: Collective, distance: Distances, branches: BoolArray
) -> int:
    """Return the length of the shortest tree on the ranks.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    distance : mapping of (node, node) to int
    branches : array of bool, shape (n,)
        Switches with the capability that trees need to branch there. Those that work by themselves may be
        nodes of the tree; the operations of GPU-initiated ones are hyperarcs.

    Raises
    ------
    ScheduleError
        If there are more than `MAX_BRANCHING_SWITCHES` or `MAX_ASKING_RANKS`, or the ranks are not connected.

    Notes
    -----
    For each subset of the switches: without operations a minimum spanning tree. With operations, which have a
    direction, a minimum arborescence from a source before all ranks: an operation is a node that any member
    of its group enters over its own link and that leads to all members at no cost. The links of the entire
    group are paid once.
    """
    ranks = frozenset(collective.ranks)
    optional = [int(v) for v in np.flatnonzero(branches & topology.turns_round) if v not in ranks]
    groups = [
        group
        for group in group_demands(topology, collective)
        if branches[group.switch] and len(group.members) > 2  # with two, a send is as short
    ]
    if len(optional) + len(groups) > MAX_BRANCHING_SWITCHES:
        raise ScheduleError(
            f"length certificate: {len(optional) + len(groups)} switches branch, expected at most "
            f"{MAX_BRANCHING_SWITCHES}"
        )
    if groups and len(ranks) > MAX_ASKING_RANKS:
        raise ScheduleError(
            f"length certificate: {len(ranks)} ranks with GPU-initiated switches, expected at most "
            f"{MAX_ASKING_RANKS} ranks"
        )
    neighbours: dict[int, list[tuple[int, int]]] = {node: [] for node in range(topology.n_nodes)}
    for (tail, head), length in distance.items():
        neighbours[tail].append((head, length))
    far = {v: path_lengths(neighbours, v) for v in (*ranks, *optional)} if groups else {}
    lengths = [
        _operating_length(distance, far, ranks | frozenset(chosen), ranks, asked)
        if asked
        else _spanning_length(neighbours, ranks | frozenset(chosen))
        for chosen in _subsets(optional)
        for asked in _subsets(groups)
    ]
    shortest = min((length for length in lengths if length is not None), default=None)
    if shortest is None:
        raise ScheduleError("length certificate: the ranks are not connected")
    return shortest


def _subsets(values: Sequence[_T]) -> Iterator[tuple[_T, ...]]:
    for size in range(len(values) + 1):
        yield from combinations(values, size)


def _spanning_length(
    neighbours: Mapping[int, Sequence[tuple[int, int]]], terminals: frozenset[int]
) -> int | None:
    """Return the length of a minimum spanning tree under path distances (Prim); None if there is none."""
    total, left = 0, set(terminals)
    best: dict[int, int] = {}
    heap = [(0, min(terminals))]
    # A terminal that joins the tree restarts at distance 0, so distances are from the tree, not a source.
    while heap and left:
        far, node = heapq.heappop(heap)
        if far > best.get(node, far):
            continue
        if node in left:
            left.discard(node)
            total += far
            far = 0
            best[node] = 0
        for other, length in neighbours[node]:
            if far + length < best.get(other, far + length + 1):
                best[other] = far + length
                heapq.heappush(heap, (far + length, other))
    return None if left else total


def path_lengths(neighbours: Mapping[int, Sequence[tuple[int, int]]], start: int) -> dict[int, int]:
    """Return the path lengths from a node to all that it reaches (Dijkstra)."""
    found: dict[int, int] = {}
    heap = [(0, start)]
    while heap:
        far, node = heapq.heappop(heap)
        if node in found:
            continue
        found[node] = far
        for other, length in neighbours.get(node, ()):
            if other not in found:
                heapq.heappush(heap, (far + length, other))
    return found


def _operating_length(
    distance: Distances,
    far: Mapping[int, Mapping[int, int]],
    terminals: frozenset[int],
    ranks: frozenset[int],
    asked: Sequence[GroupDemand],
) -> int | None:
    """Return the length of a shortest tree that uses one operation of each group in `asked`."""
    nodes = sorted(terminals)
    number = {node: i for i, node in enumerate(nodes)}
    arcs = [(number[u], number[v], far[u][v]) for u in nodes for v in nodes if u != v and v in far[u]]
    paid = 0
    for i, group in enumerate(asked, start=len(nodes)):
        reach = {v: distance[v, group.switch] for v in group.members}
        paid += sum(reach.values())
        arcs += [(number[v], i, length) for v, length in reach.items()]
        arcs += [(i, number[v], 0) for v in group.members]
    source = len(nodes) + len(asked)
    # an arc from the source is longer than all others together, so a minimum arborescence has only one
    longest = sum(length for _, _, length in arcs) + 1
    arcs += [(source, number[v], longest) for v in ranks]
    total = _arborescence(source + 1, arcs, source)
    return None if total is None or total >= 2 * longest else total - longest + paid


def _arborescence(n: int, arcs: Sequence[tuple[int, int, int]], root: int) -> int | None:
    """Return the length of a minimum arborescence of n nodes (Chu, Liu, Edmonds); None if there is none."""
    total = 0
    while True:
        least: list[tuple[int, int] | None] = [None] * n
        for tail, head, length in arcs:
            known = least[head]
            if head != root and tail != head and (known is None or length < known[0]):
                least[head] = length, tail
        total += sum(entry[0] for entry in least if entry is not None)
        if any(entry is None and v != root for v, entry in enumerate(least)):
            return None
        before = [root if entry is None else entry[1] for entry in least]
        name, count = _contracted(n, before, root)
        if count == n:
            return total
        shortest: dict[tuple[int, int], int] = {}
        for tail, head, length in arcs:
            ends = name[tail], name[head]
            if (entry := least[head]) is not None and ends[0] != ends[1]:
                shortest[ends] = min(length - entry[0], shortest.get(ends, length))
        arcs = [(tail, head, length) for (tail, head), length in shortest.items()]
        n, root = count, name[root]


def _contracted(n: int, before: Sequence[int], root: int) -> tuple[list[int], int]:
    """Return new numbers of the nodes after each cycle of `before` is contracted, and their number."""
    name, seen, count = [-1] * n, [-1] * n, 0
    for start in range(n):
        node = start
        while seen[node] < 0 and node != root:
            seen[node] = start
            node = before[node]
        if node != root and seen[node] == start and name[node] < 0:
            while name[node] < 0:
                name[node] = count
                node = before[node]
            count += 1
    for node in range(n):
        if name[node] < 0:
            name[node] = count
            count += 1
    return name, count
