"""The picture that suits a fabric: whole, boxes as one mark each, or one piece of each kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treadle.topologies.named_boxes import find_boxes, rank_boxes
from treadle.topologies.topology import Topology
from treadle.viz.box_rows import boxed
from treadle.viz.drawing_layout import DrawingLayout, Shape
from treadle.viz.drawn_network import Item, box_name, network_of, node_item
from treadle.viz.flat import flat
from treadle.viz.subproblem_classes import kinds_layout

MOST_RANKS = 64
"""Of which each has its own mark."""
MOST_COLLAPSED = 256
"""Ranks of fabrics whose boxes are drawn one by one."""


def fabric_layout(topology: Topology) -> DrawingLayout:
    """Where a fabric's nodes and links stand.

    Up to `MOST_RANKS` ranks each has a mark; up to `MOST_COLLAPSED` each box has one; beyond there is one
    piece of each kind, with the number of them. Fabrics without switches and boxes stand on a grid or circle
    (of more ranks, a node of them with its neighbours).
    """
    n_ranks = len(topology.compute_nodes)
    has_boxes = any("." in topology.node_names[node] for node in topology.compute_nodes.tolist())
    if topology.is_compute.all() and not has_boxes:
        return _direct(topology)
    boxes = find_boxes(topology, rank_boxes(topology))
    of_node = boxes.of_node
    if n_ranks <= MOST_RANKS:
        items = [node_item(topology, node) for node in range(topology.n_nodes)]
        members = [np.flatnonzero(of_node == box).tolist() for box in range(boxes.count)]
        labels = [box_name(topology, own) or topology.name for own in members]
        return boxed(network_of(topology, items), members, labels)
    if n_ranks > MOST_COLLAPSED or boxes.count == 1:
        return kinds_layout(topology, boxes)
    items = []
    for box in range(boxes.count):
        nodes = tuple(np.flatnonzero(of_node == box).tolist())
        items.append(Item(box_name(topology, nodes) or f"box {box}", Shape.GROUP, nodes))
    items += [node_item(topology, node) for node in np.flatnonzero(of_node < 0).tolist()]
    groups = [[box] for box in range(boxes.count)]
    return boxed(network_of(topology, items), groups, [""] * boxes.count, left_out="boxes are one mark each")


def _direct(topology: Topology) -> DrawingLayout:
    n = topology.n_nodes
    if n <= MOST_COLLAPSED:
        network = network_of(topology, [node_item(topology, node) for node in range(n)])
        return flat(network, topology.node_names)
    near = {int(topology.heads[link]) for link in np.flatnonzero(topology.tails == 0)}
    near |= {int(topology.tails[link]) for link in np.flatnonzero(topology.heads == 0)}
    shown = [0, *sorted(near)]
    network = network_of(topology, [node_item(topology, node) for node in shown])
    picture = flat(network, [f"n{place}" for place in range(len(shown))])
    return replace(picture, left_out=f"{topology.node_names[0]} and its {len(near)} neighbours, of {n} nodes")
