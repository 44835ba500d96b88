"""The class of each link of a fabric: within a box, in the network, or a hop between ranks.

Names of ranks define boxes (`topologies.named_boxes`); without such names, the fastest links of each rank do.
Ranks below a leaf switch do not form a box, though they share a name: their only links go to a switch that
leads on.
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import BoolArray, Int64Array, mask_of
from treadle.program.trees.send_order import turns_of
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.simulation.costs.cost_model import LinkClass, Protocol
from treadle.topologies.named_boxes import NETWORK, find_boxes, rank_boxes
from treadle.topologies.topology import Topology

CLASSES: tuple[LinkClass, ...] = (LinkClass.BOX, LinkClass.HOP, LinkClass.NETWORK)
"""Classes in the order of their numbers in arrays; a message is of the last class of its links."""

_BOX, _HOP, _NETWORK = range(3)


def link_classes(topology: Topology) -> Int64Array:
    """Return the number in `CLASSES` of each link's class, shape (links,).

    A link is within a box if both ends belong to it. Any other link between two ranks is a hop if no box has
    several ranks, and otherwise a cable between boxes, hence of the network.
    """
    box = _box_of_nodes(topology)
    tails, heads = box[topology.tails], box[topology.heads]
    inside = (tails == heads) & (tails != NETWORK)
    joins_ranks = topology.is_compute[topology.tails] & topology.is_compute[topology.heads]
    has_boxes = bool(inside.any())
    classes = np.where(joins_ranks & (not has_boxes), _HOP, _NETWORK)
    classes[inside] = _BOX
    return classes.astype(np.int64)


def data_rates(
    protocol: Protocol, bandwidths: Int64Array, classes: Int64Array, leaves_rank: BoolArray
) -> Int64Array:
    """Return the rate of data on each link, bytes/s, rounded down but at least 1.

    Each class has an efficiency, and a link that leaves a rank is no faster than all channels together.
    """
    kinds = np.stack([bandwidths, classes, leaves_rank])
    distinct, place = np.unique(kinds, axis=1, return_inverse=True)
    rates = []
    for bandwidth, number, leaves in distinct.T.tolist():  # products of bandwidths may exceed 63 bits
        share = protocol.of(CLASSES[number]).efficiency
        rate = max(1, bandwidth * share.numerator // share.denominator)
        rates.append(min(rate, protocol.ceiling_bytes_per_s or rate) if leaves else rate)
    found: Int64Array = np.array(rates, dtype=np.int64)[place.reshape(-1)]
    return found


def _box_of_nodes(topology: Topology) -> Int64Array:
    """Return the box of each node; `NETWORK` for switches outside boxes and for ranks alone in a box."""
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
    # a box is a group in which a rank has a link to another rank, or to a switch that does not lead out
    leads_out = mask_of(topology.n_nodes, tails[of_tail != of_head])
    inside = topology.is_compute[tails] & (of_tail == of_head)
    own = inside & (topology.is_compute[heads] | ~leads_out[heads])
    is_box = (np.bincount(groups, minlength=boxes.count) > 1) & mask_of(boxes.count, of_tail[own])
    of_node = boxes.of_node.copy()
    of_node[(of_node != NETWORK) & ~is_box[of_node]] = NETWORK
    return of_node
