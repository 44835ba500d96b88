"""Short trees of many ranks in boxes: across in one hop to the rank of equal position, then trees of each
box."""

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
    """Trees of a box, whose ranks are counted by position.

    Parameters
    ----------
    ranks : tuple of int
        Ranks of the collective, by position.
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
    """Return out-trees of every rank over two or more boxes of one size, given by their ranks.

    Every box carries the shards of equal positions over the same trees, so that equal boxes need one program.

    Raises
    ------
    ScheduleError
        If boxes differ in size.
    InfeasibleError
        If a box needs higher trees, or ranks of equal position do not reach each other in a hop.
    """
    if len({len(box) for box in boxes}) > 1:
        raise ScheduleError("trees across boxes: expected boxes of one size")
    # each box with its own switches, and the numbers of its links
    box_of = {collective.ranks[rank]: number for number, box in enumerate(boxes) for rank in box}
    own = [box_of[node] for node in topology.compute_nodes.tolist()]
    of_node = np.where(topology.is_compute, -1, boxes_of_nodes(topology, own).of_node)
    solved: dict[Topology, list[list[BoundedHeightTree]]] = {}  # equal boxes are solved once
    parts = []
    for number, box in enumerate(boxes):
        switches = np.flatnonzero(of_node == number).tolist()
        inside, links = fabric_of_box(topology, [collective.ranks[rank] for rank in box], switches)
        if inside not in solved:
            problem = instance_of(inside, on_all_ranks(inside, CollectiveKind.ALLGATHER))
            solved[inside] = [[] for _ in problem.terminals]
            for tree, times in choose_trees(bounded_height_trees(problem, height - 1), trees_per_root):
                solved[inside][tree.root] += [tree] * times
        parts.append(_BoxTrees(box, links, solved[inside]))
    router, specs = Router(topology, collective), list[TreeSpec]()

    def route(root: int, target: int) -> Route:
        """Return the path to a rank of another box; empty for the root itself."""
        path = () if root == target else router.route(root, target)
        if path is None:
            one, other = (topology.node_names[collective.ranks[rank]] for rank in (root, target))
            raise InfeasibleError(f"trees across boxes: no path through switches leads from {one} to {other}")
        return path

    for part in parts:
        for position, root in enumerate(part.ranks):
            across = [route(root, other.ranks[position]) for other in parts]
            weight = collective.shard_weights[root]
            for unit in range(trees_per_root if weight else 0):
                specs.append(_joined(parts, root, position, unit, weight, across))
    return specs


def _joined(
    parts: Sequence[_BoxTrees], root: int, position: int, unit: int, weight: int, across: Sequence[Route]
) -> TreeSpec:
    n = sum(len(part.ranks) for part in parts)
    parent, paths = [-1] * n, dict[int, list[tuple[tuple[int, ...], int]]]()
    for part, path in zip(parts, across, strict=True):
        tree = part.units[position][unit]
        if part.ranks[position] != root:
            parent[part.ranks[position]] = root
            paths[part.ranks[position]] = [(path, weight)]
        for local, above in enumerate(tree.parent.tolist()):
            if above >= 0:
                rank = part.ranks[local]
                parent[rank] = part.ranks[above]
                paths[rank] = [(tuple(part.numbers[list(tree.paths[local])].tolist()), weight)]
    return TreeSpec(root, weight, parent, paths)
