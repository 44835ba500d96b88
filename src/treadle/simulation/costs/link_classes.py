"""Which class each link of a fabric is of: within a box, in the network, or a hop between ranks.

Boxes are what the names of ranks say (`topologies.named_boxes`), or where they say nothing what the fastest
links of each rank join. Ranks below a leaf switch are no box, though they share a name: their only links go
to a switch that leads on.
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array, mask_of
from treadle.program.trees.send_order import turns_of
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.simulation.costs.cost_model import LinkClass
from treadle.topologies.named_boxes import NETWORK, find_boxes, rank_boxes
from treadle.topologies.topology import Topology

CLASSES: tuple[LinkClass, ...] = (LinkClass.BOX, LinkClass.HOP, LinkClass.NETWORK)
"""By number in arrays; a message is of the last class of its links."""

_BOX, _HOP, _NETWORK = range(3)


def link_classes(topology: Topology) -> Int64Array:
    """Number in `CLASSES` of each link's class, shape (links,).

    Parameters
    ----------
    topology : Topology

    Notes
    -----
    Within a box: both ends belong to it. Else a link between two ranks is a hop if no box has several ranks,
    and a link of the network if some box has: cables between boxes.
    """
    box = _box_of_nodes(topology)
    tails, heads = box[topology.tails], box[topology.heads]
    inside = (tails == heads) & (tails != NETWORK)
    joins_ranks = topology.is_compute[topology.tails] & topology.is_compute[topology.heads]
    has_boxes = bool(inside.any())
    classes = np.where(joins_ranks & (not has_boxes), _HOP, _NETWORK)
    classes[inside] = _BOX
    return classes.astype(np.int64)


def _box_of_nodes(topology: Topology) -> Int64Array:
    """Box of each node; `NETWORK` for switches of none, and for ranks that are in no box with others."""
    ranks = topology.compute_nodes
    groups = rank_boxes(topology)
    if not any("." in topology.node_names[node] for node in ranks.tolist()):
        turns = turns_of(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))
        groups = tuple(turns.box.tolist())
        if len(set(groups)) == 1:
            return np.full(topology.n_nodes, NETWORK, dtype=np.int64)
    boxes = find_boxes(topology, groups)
    tails, heads = topology.tails, topology.heads
    of_tail, of_head = boxes.of_node[tails], boxes.of_node[heads]
    # groups in which a rank has a link to another rank, or to a switch that does not lead out
    leads_out = mask_of(topology.n_nodes, tails[of_tail != of_head])
    inside = topology.is_compute[tails] & (of_tail == of_head)
    own = inside & (topology.is_compute[heads] | ~leads_out[heads])
    is_box = (np.bincount(groups, minlength=boxes.count) > 1) & mask_of(boxes.count, of_tail[own])
    of_node = boxes.of_node.copy()
    of_node[(of_node != NETWORK) & ~is_box[of_node]] = NETWORK
    return of_node
