"""NCCL-like double binary trees over boxes, with chains inside boxes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.synthesis.trees.baselines.boxes import direct_arcs, find_boxes
from treadle.synthesis.trees.baselines.embedding import ForestBuilder, check_supported, compose
from treadle.synthesis.trees.baselines.ring import Order, box_cycles
from treadle.topologies.topology import Topology

_KINDS = (CollectiveKind.ALLREDUCE, CollectiveKind.BROADCAST, CollectiveKind.REDUCE)


def double_binary_tree(topology: Topology, collective: Collective) -> ForestSchedule:
    """Two complementary binary trees, each for half of the data.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Allreduce, broadcast or reduce.

    Returns
    -------
    ForestSchedule
        Two trees per NIC. The allreduce reduces each tree to its root and broadcasts from there; broadcast
        and reduce use the same trees with their edges turned away from, or towards, the given root.

    Notes
    -----
    The trees join the boxes, or the ranks where there is one box only. Tree pair j enters every box at rank j
    and follows a chain inside. Leaves of one tree are inner nodes of the other, but for one or two.
    Source: Sanders, Speck and Traff, Parallel Computing 35 (2009), as adopted by NCCL 2.4.
    """
    check_supported("double-binary-tree", topology, collective, _KINDS)

    def build(fabric: Topology, there: Collective) -> Forest:
        return forest_of_trees(ForestBuilder(fabric, there), trees_over_boxes(fabric, there), there.root)

    return compose(topology, collective, build)


def trees_over_boxes(topology: Topology, collective: Collective) -> list[list[int]]:
    """Return the parents of all ranks in each tree, -1 at its root."""
    boxes = find_boxes(topology, collective)
    if len(boxes) == 1:
        boxes = tuple((rank,) for rank in range(collective.n_ranks))
    arcs = direct_arcs(topology, collective)
    chains = [(box_cycles(box, arcs) or (box,)) if len(box) > 1 else (box,) for box in boxes]
    return [
        _tree_over_boxes(boxes, chains, above, lane)
        for lane in range(min(len(box) for box in boxes))
        for above in double_tree(len(boxes))
    ]


def forest_of_trees(builder: ForestBuilder, trees: Sequence[Sequence[int]], root: int | None) -> Forest:
    """Return equal shares of the data along all trees, each from its own root or from the given one."""
    for parent in trees:
        turned = list(parent)  # the same tree with its edges turned away from its start
        start = turned.index(-1) if root is None else root
        below, at = -1, start
        while at >= 0:
            turned[at], below, at = below, at, parent[at]
        builder.add_logical(start, 1, turned)
    return builder.build()


def double_tree(n: int) -> tuple[list[int], list[int]]:
    """Return the parents in two binary trees of 0..n-1, -1 at the roots.

    In the first one odd numbers are leaves and 0 is the root above all; the second is the first with its
    numbers mirrored (n even) or shifted by one (n odd), so that inner nodes become leaves.
    """
    first = [-1] * n
    for v in range(1, n):
        low = v & -v
        above = (v ^ low) | (low << 1)
        # a parent beyond the end is replaced by the nearest ancestor below
        first[v] = above if above < n else v ^ low
    moved = [n - 1 - v for v in range(n)] if n % 2 == 0 else [(v + 1) % n for v in range(n)]
    second = [-1] * n
    for v in range(1, n):
        second[moved[v]] = moved[first[v]]
    return first, second


def _tree_over_boxes(
    boxes: Sequence[Order], chains: Sequence[Sequence[Order]], above: Sequence[int], lane: int
) -> list[int]:
    parent = [-1] * sum(len(box) for box in boxes)
    for i, box in enumerate(boxes):
        if above[i] >= 0:
            parent[box[lane]] = boxes[above[i]][lane]
        order = chains[i][lane % len(chains[i])]
        at = order.index(box[lane])
        for one, other in pairwise(order[at:] + order[:at]):
            parent[other] = one
    return parent
