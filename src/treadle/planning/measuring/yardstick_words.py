"""Where a limit binds, in words."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from treadle.diagnosis.suspect import PcieLimit
from treadle.planning.measuring.yardsticks import NETWORK, Boxes, Limit, ways_out
from treadle.topologies.topology import Topology


class BindingPlace(StrEnum):
    """Where the links lie that set a limit; the words that reports use."""

    GPU = "all links of a GPU"
    BOX = "the GPUs' links within a box"
    PCIE = "the GPU's PCIe"
    NICS = "the NICs of a box"
    NETWORK = "the network between the boxes"
    SEVERAL = "several cuts together"


def place_of(topology: Topology, boxes: Boxes, limit: Limit) -> BindingPlace:
    """Where a limit binds.

    Parameters
    ----------
    topology : Topology
    boxes : Boxes
    limit : Limit
    """
    links = np.array(limit.links, dtype=np.int64)
    if not links.size:
        return BindingPlace.SEVERAL
    tails, heads = boxes.of_node[topology.tails[links]], boxes.of_node[topology.heads[links]]
    inside = (tails == heads) & (tails != NETWORK)
    between = (tails == NETWORK) & (heads == NETWORK)
    if between.any():
        return BindingPlace.NETWORK
    if not inside.any():
        return BindingPlace.NICS
    outward = ways_out(topology, boxes)
    on_the_way = outward[topology.tails[links]] | outward[topology.heads[links]] | ~inside
    if on_the_way.all():
        ends = {*topology.tails[links[inside]].tolist(), *topology.heads[links[inside]].tolist()}
        words = " ".join(topology.node_names[end].casefold() for end in ends)
        return BindingPlace.NICS if "nic" in words and "pci" not in words else BindingPlace.PCIE
    return BindingPlace.GPU if on_the_way.any() else BindingPlace.BOX


def pcie_limit(topology: Topology, boxes: Boxes, limit: Limit) -> PcieLimit | None:
    """A limit that PCIe sets although the network cards behind it could carry much more; else None."""
    links = np.array(limit.links, dtype=np.int64)
    box = int(boxes.of_node[topology.tails[links[0]]])
    leaving = boxes.leaving(topology)[box]
    nics = int(topology.bandwidths[leaving].sum())
    if nics < _MUCH_MORE * limit.capacity:
        return None
    return PcieLimit(bandwidth=limit.capacity, nics=nics, n_nics=len(leaving))


_MUCH_MORE = 1.3
