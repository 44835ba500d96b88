"""Fabrics of equal boxes: a rotation of the boxes that leaves the fabric as it is.

Box b takes the place of box b + 1, the last one that of the first. Ranks keep their places in the box;
switches follow the nodes that they are joined to. What is found is checked link by link, so that nothing
rests on how it was guessed.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from treadle.arrays import BoolArray, Int64Array
from treadle.errors import TopologyError
from treadle.topologies.isomorphism import have_equal_nodes, link_map
from treadle.topologies.topology import Topology


@dataclass(frozen=True, eq=False)
class Rotation:
    """A rotation of the boxes and what it does to links.

    Parameters
    ----------
    boxes : int
        B: as many turns are none at all.
    links : array of int64, shape (B, links)
        [k, link]: where k turns take a link.
    """

    boxes: int
    links: Int64Array

    @property
    def first(self) -> Int64Array:
        """Smallest link of each link's orbit, shape (links,)."""
        found: Int64Array = self.links.min(axis=0)
        return found

    @property
    def moves(self) -> BoolArray:
        """Whether no turns but B, or a multiple, take a link to itself, shape (links,)."""
        rests: BoolArray = (self.links[1:] == self.links[0]).any(axis=0)
        return ~rests


def box_rotation(topology: Topology, ranks: Int64Array, size: int) -> Rotation | None:
    """The rotation of boxes of `size` ranks each, one after another in rank order; None where there is none.

    Parameters
    ----------
    topology : Topology
    ranks : array of int64, shape (N,)
        Node of each rank; `size` divides N.
    size : int

    Notes
    -----
    Indistinguishable switches are matched in the order of their numbers; another order might fit where
    this one does not. O(B links) time and memory.
    """
    boxes = len(ranks) // size
    image = _image_of_nodes(topology, ranks, np.roll(ranks, -size))
    if image is None:
        return None
    turn = _image_of_links(topology, image)
    if turn is None:
        return None
    turns = [np.arange(topology.n_links)]
    for _ in range(boxes - 1):
        turns.append(turn[turns[-1]])
    if not np.array_equal(turn[turns[-1]], turns[0]):
        return None
    return Rotation(boxes, np.stack(turns))


def _image_of_nodes(topology: Topology, nodes: Int64Array, images: Int64Array) -> Int64Array | None:
    """The image of each node, -1 for switches that no rank reaches; None if some have no counterpart."""
    image = np.full(topology.n_nodes, -1, dtype=np.int64)
    image[nodes] = images
    if len(nodes) < len(topology.compute_nodes):
        rest = np.setdiff1d(topology.compute_nodes, nodes)
        image[rest] = rest
    while True:
        is_known = image >= 0
        own, theirs = _meetings(topology, is_known, image), _meetings(topology, is_known, None)
        if not own:
            return image
        for key, switches in own.items():
            if len(theirs.get(key, ())) != len(switches):
                return None
            image[switches] = theirs[key]


_Meeting = tuple[tuple[int, int, int, bool], ...]


def _meetings(topology: Topology, is_known: BoolArray, image: Int64Array | None) -> dict[_Meeting, list[int]]:
    """Switches that are not known yet, by the links that join them to known nodes (or to their images)."""
    joined: dict[int, list[tuple[int, int, int, bool]]] = defaultdict(list)
    tails, heads = topology.tails, topology.heads
    for near, far, is_out in ((tails, heads, True), (heads, tails, False)):
        for link in np.flatnonzero(is_known[near] & ~is_known[far]).tolist():
            node = int(near[link]) if image is None else int(image[near[link]])
            rate, latency = int(topology.bandwidths[link]), int(topology.latencies_ns[link])
            joined[int(far[link])].append((node, rate, latency, is_out))
    found: dict[_Meeting, list[int]] = defaultdict(list)
    for switch in sorted(joined):
        found[tuple(sorted(joined[switch]))].append(switch)
    return found


def _image_of_links(topology: Topology, image: Int64Array) -> Int64Array | None:
    """Return the image of each link under a map of nodes; None unless it is an automorphism."""
    image = np.where(image < 0, np.arange(len(image)), image)
    if len(np.unique(image)) < len(image) or not have_equal_nodes(topology, topology, image):
        return None
    try:
        return link_map(topology, topology, image).astype(np.int64)
    except TopologyError:
        return None
