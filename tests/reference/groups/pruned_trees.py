"""Shortest-path trees pruned to groups, one after the other: a slow account of `core.tree_figures`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.arrays import Int64Array
from treadle.topologies.catalogue.direct import in_links
from treadle.topologies.distances import distance_matrix
from treadle.topologies.topology import Topology


def pruned_tree_figures(
    topology: Topology, groups: Sequence[Sequence[int]], loads: list[int] | None = None
) -> tuple[int, int, int]:
    """Trees over the fullest link; the longest distance within a group, and the sum of all such distances.

    `loads` takes up the load of every link.
    """
    into = in_links(topology)
    tails = topology.tails.astype(np.int64)
    distances = distance_matrix(topology)
    load = np.zeros(topology.n_links, dtype=np.int64)
    steps = total = 0
    for members in groups:
        for source in members:
            row = distances[source].astype(np.int64)
            steps = max(steps, int(row[list(members)].max()))
            total += int(row[list(members)].sum())
            _add_pruned_tree(into, tails, row, members, load)
    if loads is not None:
        loads.extend(load.tolist())
    return int(load.max()), steps, total


def _add_pruned_tree(
    into: np.ndarray[tuple[int, ...], np.dtype[np.int32]],
    tails: Int64Array,
    distance: Int64Array,
    members: Sequence[int],
    load: Int64Array,
) -> None:
    """Joins members to the source from the farthest inwards, by the least loaded of the shortest ways."""
    needed = {int(node) for node in members if distance[node]}
    levels: dict[int, set[int]] = {}
    for node in needed:
        levels.setdefault(int(distance[node]), set()).add(node)
    for level in range(max(levels, default=0), 0, -1):
        for node in sorted(levels.get(level, ())):
            links = [int(link) for link in into[node] if distance[tails[link]] == level - 1]
            # a parent that has to receive the shard anyway costs nothing more
            best = min(links, key=lambda e: (int(tails[e]) not in needed and level > 1, load[e], e))
            load[best] += 1
            parent = int(tails[best])
            if level > 1 and parent not in needed:
                needed.add(parent)
                levels.setdefault(level - 1, set()).add(parent)
