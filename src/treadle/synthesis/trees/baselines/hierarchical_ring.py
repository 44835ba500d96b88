"""Rings across boxes, then rings inside boxes, after BlueConnect."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from treadle.schedules.collective import Collective
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.synthesis.trees.baselines.boxes import direct_arcs, find_boxes
from treadle.synthesis.trees.baselines.embedding import GATHERING, ForestBuilder, check_supported, compose
from treadle.synthesis.trees.baselines.ring import Order, box_cycles, ring
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported


def boxes_of_one_size(topology: Topology, collective: Collective) -> Unsupported | None:
    """A ring across boxes has a rank of the same place in each."""
    sizes = sorted({len(box) for box in find_boxes(topology, collective)})
    if len(sizes) == 1:
        return None
    return Unsupported(f"expected boxes of one size, found {sizes}; use ring instead")


def hierarchical_ring(topology: Topology, collective: Collective) -> ForestSchedule:
    """Two levels of rings: the allgather goes across boxes among ranks of equal place, then inside each box.

    The reduce-scatter goes in reverse, an allreduce does both; with one box this is `ring`.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Allgather, reduce-scatter or allreduce.

    Returns
    -------
    ForestSchedule

    Raises
    ------
    ScheduleError
        If boxes differ in size.

    Notes
    -----
    Source: Cho et al., BlueConnect (MLSys 2019): a decomposition of allreduce into reduce-scatters and
    allgathers along the levels of the fabric.
    """
    check_supported("hierarchical-ring", topology, collective, GATHERING, (boxes_of_one_size,))
    if len(find_boxes(topology, collective)) == 1:
        return ring(topology, collective)
    return compose(topology, collective, _two_level_forest)


def _two_level_forest(topology: Topology, collective: Collective) -> Forest:
    boxes = find_boxes(topology, collective)
    arcs = direct_arcs(topology, collective)
    cycles = [box_cycles(box, arcs) or (box,) for box in boxes]
    builder = ForestBuilder(topology, collective)
    for lane in range(min(len(orders) for orders in cycles)):
        orders = [found[lane] for found in cycles]
        for root, weight in enumerate(collective.shard_weights):
            if weight:
                builder.add_logical(root, weight, _two_level_parents(boxes, orders, root, lane % 2))
    return builder.build()


def _two_level_parents(
    boxes: Sequence[Order], orders: Sequence[Order], root: int, backwards: int
) -> list[int]:
    """Return the parents in the tree of one root: around the boxes at its position, then around each box."""
    parent = [-1] * sum(len(box) for box in boxes)
    home = next(i for i, box in enumerate(boxes) if root in box)
    position, above = boxes[home].index(root), -1
    for i in range(len(boxes)):
        here = (home - i if backwards else home + i) % len(boxes)
        head, order = boxes[here][position], orders[here]
        at = order.index(head)
        for one, other in pairwise(order[at:] + order[:at]):
            parent[other] = one
        parent[head], above = above, head
    return parent
