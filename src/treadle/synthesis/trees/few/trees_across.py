"""Low trees of many ranks in boxes: across in one hop to the rank of equal place, then trees of each box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import TreeSpec
from treadle.synthesis.trees.baselines.boxes import fabric_of_box
from treadle.synthesis.trees.baselines.logical_hops import Route, Router
from treadle.synthesis.trees.few.bounded_height_lp import BoundedHeightTree, bounded_height_trees
from treadle.synthesis.trees.few.chosen_trees import choose_trees
from treadle.synthesis.trees.instance import instance_of
from treadle.topologies.named_boxes import find_boxes as boxes_of_nodes
from treadle.topologies.topology import Topology


@dataclass(frozen=True, eq=False)
class _BoxTrees:
    """Trees of a box, whose ranks are counted by place.

    Parameters
    ----------
    ranks : tuple of int
        Of the collective, by place.
    numbers : array of int64
        Links of the fabric that the box's links are.
    units : sequence of sequences of BoundedHeightTree
        By root, then by unit of its shard.
    """

    ranks: tuple[int, ...]
    numbers: Int64Array
    units: Sequence[Sequence[BoundedHeightTree]]


def trees_across(
    topology: Topology,
    collective: Collective,
    boxes: Sequence[tuple[int, ...]],
    *,
    trees_per_root: int,
    height: int,
) -> list[TreeSpec]:
    """Out-trees of every rank over boxes of one size.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Its ranks and `shard_weights` count.
    boxes : sequence of tuples of int
        Ranks of each box, two boxes at least.
    trees_per_root, height : int
        Of the whole.

    Raises
    ------
    ScheduleError
        If boxes differ in size.
    InfeasibleError
        If a box needs higher trees, or ranks of equal place do not reach each other in a hop.

    Notes
    -----
    Every box carries the shards of equal places over the same trees, so that equal boxes need one program.
    """
    if len({len(box) for box in boxes}) > 1:
        raise ScheduleError("trees across boxes: expected boxes of one size")
    # boxes with their own switches, and the numbers of their links; equal boxes have equal ones
    of_rank = {rank: number for number, box in enumerate(boxes) for rank in box}
    rank_of = {node: rank for rank, node in enumerate(collective.ranks)}
    own = [of_rank[rank_of[node]] for node in topology.compute_nodes.tolist()]
    of_node = np.where(topology.is_compute, -1, boxes_of_nodes(topology, own).of_node)
    insides = [
        fabric_of_box(
            topology, [collective.ranks[rank] for rank in box], np.flatnonzero(of_node == i).tolist()
        )
        for i, box in enumerate(boxes)
    ]
    # the trees of each root of a box, one for each unit; of equal boxes they are made once
    known: dict[Topology, list[list[BoundedHeightTree]]] = {}
    for inside in dict.fromkeys(inside for inside, _ in insides):
        problem = instance_of(inside, on_all_ranks(inside, CollectiveKind.ALLGATHER))
        known[inside] = [[] for _ in problem.terminals]
        for tree, times in choose_trees(bounded_height_trees(problem, height - 1), trees_per_root):
            known[inside][tree.root] += [tree] * times
    parts = [
        _BoxTrees(box, numbers, known[inside]) for (inside, numbers), box in zip(insides, boxes, strict=True)
    ]
    router, found = Router(topology, collective), list[TreeSpec]()

    def route(root: int, target: int) -> Route:
        """The path to a rank of another box; empty for the root itself."""
        path = () if root == target else router.route(root, target)
        if path is None:
            one, other = (topology.node_names[collective.ranks[rank]] for rank in (root, target))
            raise InfeasibleError(f"trees across boxes: no path through switches leads from {one} to {other}")
        return path

    for home, part in enumerate(parts):
        for place, root in enumerate(part.ranks):
            across = [route(root, other.ranks[place]) for other in parts]
            weight = collective.shard_weights[root]
            for unit in range(trees_per_root if weight else 0):
                found.append(_joined(parts, home, place, unit, weight, across))
    return found


def _joined(
    parts: Sequence[_BoxTrees], home: int, place: int, unit: int, weight: int, across: Sequence[Route]
) -> TreeSpec:
    n = sum(len(part.ranks) for part in parts)
    root = parts[home].ranks[place]
    parent, paths = [-1] * n, dict[int, list[tuple[tuple[int, ...], int]]]()
    for part, path in zip(parts, across, strict=True):
        tree = part.units[place][unit]
        if part.ranks[place] != root:
            parent[part.ranks[place]] = root
            paths[part.ranks[place]] = [(path, weight)]
        for local, above in enumerate(tree.parent.tolist()):
            if above >= 0:
                rank = part.ranks[local]
                parent[rank] = part.ranks[above]
                paths[rank] = [(tuple(part.numbers[list(tree.paths[local])].tolist()), weight)]
    return TreeSpec(root, weight, parent, paths)
