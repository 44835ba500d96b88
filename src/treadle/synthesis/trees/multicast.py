"""Post-processing for switches that multicast or aggregate: traffic they make redundant is removed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from treadle.arrays import BoolArray
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule, TreeSpec, forest_from_trees
from treadle.schedules.trees.forest_cost import link_loads
from treadle.synthesis.trees.operations import use_operations
from treadle.synthesis.trees.tree_parts import breadth_first, single_path_trees
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

    Out-trees use switches with `multicast`, in-trees those with `aggregation`. Throughput does not change:
    that of allgather and reduce-scatter is bound by a cut. Total traffic and the load on hosts do.

    A switch that operates by itself is used wherever a tree passes it again. A GPU-initiated one
    loads other links besides, the asker's own above all: `use_operations` decides for which trees that pays.

    Trees that were packed through switches stay as they are.

    Source: section 4.5.6 and figure 4.8c of the dissertation.
    """
    first = replace(
        schedule,
        reduce=schedule.reduce and _prune(topology, schedule.reduce, topology.aggregation),
        broadcast=schedule.broadcast and _prune(topology, schedule.broadcast, topology.multicast),
    )
    pruned = use_operations(topology, first, link_loads(topology, schedule).tolist())
    return Pruning(pruned, _traffic(topology, schedule), _traffic(topology, pruned))


def _traffic(topology: Topology, schedule: ForestSchedule) -> float:
    return int(link_loads(topology, schedule).sum()) / schedule.total_units


def _prune(topology: Topology, forest: Forest, able: BoolArray) -> Forest:
    capable = able & topology.turns_round
    if not capable.any():
        return forest
    trees = (_pruned_tree(topology, forest, spec, capable) for spec in single_path_trees(forest))
    return forest_from_trees(forest.direction, forest.n_ranks, trees)


def _pruned_tree(topology: Topology, forest: Forest, spec: TreeSpec, capable: BoolArray) -> TreeSpec:
    """From the root outwards, start each edge at the last capable switch of its path that has the data."""
    outward = forest.direction is Direction.BROADCAST
    near = topology.tails if outward else topology.heads  # the end of a link that is nearer to the root
    paths = {}
    reached: set[int] = set()
    for rank in breadth_first(spec):
        ((links, units),) = spec.paths[rank]
        steps = links if outward else links[::-1]
        if not topology.is_compute[near[steps[0]]]:
            return spec  # packed through switches already: this edge does not begin at the parent
        nodes = [int(near[link]) for link in steps]
        # what a capable switch has seen need not come from the parent again: the edge begins there
        start = max((i for i, node in enumerate(nodes) if node in reached), default=0)
        reached.update(node for node in nodes[start:] if capable[node])
        kept = steps[start:]
        paths[rank] = [(kept if outward else kept[::-1], units)]
    return TreeSpec(spec.root, spec.multiplicity, spec.parent, paths)
