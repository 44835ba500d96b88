"""Post-processing for switches that multicast or aggregate: traffic they make redundant is removed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from treadle.arrays import BoolArray
from treadle.schedules.cost import link_loads
from treadle.schedules.forest import Direction, Forest, ForestSchedule, Tree, TreeSpec, forest_from_trees
from treadle.topologies.topology import Topology


@dataclass(frozen=True)
class Pruning:
    """A schedule pruned for in-network multicast and aggregation.

    Parameters
    ----------
    schedule : ForestSchedule
    traffic_before, traffic_after : float
        Bytes that cross links, all links together, per byte of the collective's size.
    """

    schedule: ForestSchedule
    traffic_before: float
    traffic_after: float


def prune_for_switches(topology: Topology, schedule: ForestSchedule) -> Pruning:
    """Let capable switches copy (or combine) what several tree edges would send them (or take from them).

    Out-trees use switches with `multicast`, in-trees those with `aggregation`. Throughput of allgather and
    reduce-scatter does not change, since it is bound by a cut; total traffic and the load on hosts do.

    Source: section 4.5.6 and figure 4.8c of the dissertation.
    """
    pruned = replace(
        schedule,
        reduce=schedule.reduce and _prune(topology, schedule.reduce, topology.aggregation),
        broadcast=schedule.broadcast and _prune(topology, schedule.broadcast, topology.multicast),
    )
    return Pruning(pruned, _traffic(topology, schedule), _traffic(topology, pruned))


def _traffic(topology: Topology, schedule: ForestSchedule) -> float:
    return int(link_loads(topology, schedule).sum()) / schedule.total_units


def _prune(topology: Topology, forest: Forest, capable: BoolArray) -> Forest:
    if not capable.any():
        return forest
    trees = (
        _pruned_tree(topology, forest, spec, capable)
        for root in range(forest.n_ranks)
        for tree in forest.trees(root)
        for spec in _single_path_trees(forest, tree)
    )
    return forest_from_trees(forest.direction, forest.n_ranks, trees)


def _single_path_trees(forest: Forest, tree: Tree) -> Iterator[TreeSpec]:
    """Cut a weighted tree so that every edge of each part takes one path."""
    offset = tree.entry_offset
    ends = np.cumsum(tree.entry_units)
    before = np.concatenate([[0], ends])[offset[:-1]]
    within = ends - np.repeat(before, np.diff(offset))  # units up to and with each entry, per edge
    bounds = np.unique(np.concatenate([[0, tree.multiplicity], within]))
    parents = tree.parent.tolist()
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        paths = {}
        for rank in range(forest.n_ranks):
            if rank == tree.root:
                continue
            low, high = int(offset[rank]), int(offset[rank + 1])
            entry = low + int(np.searchsorted(within[low:high], start, side="right"))
            paths[rank] = [(tuple(forest.path(int(tree.entry_path[entry])).tolist()), stop - start)]
        yield TreeSpec(tree.root, stop - start, parents, paths)


def _pruned_tree(topology: Topology, forest: Forest, spec: TreeSpec, capable: BoolArray) -> TreeSpec:
    """From the root outwards, start each edge at the last capable switch of its path that has the data."""
    outward = forest.direction is Direction.BROADCAST
    near = topology.tails if outward else topology.heads  # the end of a link that is nearer to the root
    paths = {}
    reached: set[int] = set()
    for rank in _breadth_first(spec):
        ((links, units),) = spec.paths[rank]
        steps = links if outward else links[::-1]
        nodes = [int(near[link]) for link in steps]
        start = max((i for i, node in enumerate(nodes) if node in reached), default=0)
        reached.update(node for node in nodes[start:] if capable[node])
        kept = steps[start:]
        paths[rank] = [(kept if outward else kept[::-1], units)]
    return TreeSpec(spec.root, spec.multiplicity, spec.parent, paths)


def _breadth_first(spec: TreeSpec) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for rank, parent in enumerate(spec.parent):
        if rank != spec.root:
            children.setdefault(parent, []).append(rank)
    layer = [spec.root]
    while layer:
        layer = [child for rank in layer for child in children.get(rank, ())]
        yield from layer
