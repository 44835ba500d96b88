"""Position of the bottleneck that sets a limit."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from treadle.arrays import Int64Array
from treadle.diagnosis.cause import PcieLimit
from treadle.diagnosis.reference_bandwidths import Limit, egress_links
from treadle.topologies.named_boxes import NETWORK, Boxes
from treadle.topologies.topology import Topology


class LimitPosition(StrEnum):
    """Position of the links that set a limit, as reports print it."""

    GPU = "all links of a GPU"
    BOX = "the GPUs' links within a box"
    PCIE = "the GPU's PCIe"
    NICS = "the NICs of a box"
    NETWORK = "the network between the boxes"
    SEVERAL = "several cuts together"
    PRICES = "dual prices"


def limit_position_of(topology: Topology, boxes: Boxes, limit: Limit) -> LimitPosition:
    """Return the position of a limit's bottleneck.

    Parameters
    ----------
    topology : Topology
    boxes : Boxes
    limit : Limit
    """
    if limit.is_priced:
        return LimitPosition.PRICES
    links = np.array(limit.links, dtype=np.int64)
    if not links.size:
        return LimitPosition.SEVERAL
    tails, heads = boxes.of_node[topology.tails[links]], boxes.of_node[topology.heads[links]]
    inside = (tails == heads) & (tails != NETWORK)
    between = (tails == NETWORK) & (heads == NETWORK)
    if between.any():
        return LimitPosition.NETWORK
    if not inside.any():
        return LimitPosition.NICS
    outward = egress_links(topology, boxes)
    on_the_way = outward[topology.tails[links]] | outward[topology.heads[links]] | ~inside
    if on_the_way.all():
        return LimitPosition.NICS if _are_of_nics(topology, boxes, links[inside]) else LimitPosition.PCIE
    return LimitPosition.GPU if on_the_way.any() else LimitPosition.BOX


def _are_of_nics(topology: Topology, boxes: Boxes, links: Int64Array) -> bool:
    """Whether these links lead to nothing but network cards whose ports are no faster."""
    ports = np.zeros(topology.n_nodes, dtype=np.int64)
    for leaving in boxes.leaving(topology):
        np.add.at(ports, topology.tails[leaving], topology.bandwidths[leaving])
    for link in links.tolist():
        ends = (int(topology.tails[link]), int(topology.heads[link]))
        card = next((end for end in ends if ports[end] and not topology.is_compute[end]), None)
        if card is None or ports[card] > topology.bandwidths[link]:
            return False
        if all("pci" in topology.node_names[end].casefold() or topology.is_compute[end] for end in ends):
            return False
    return True


def pcie_limit(topology: Topology, boxes: Boxes, limit: Limit) -> PcieLimit | None:
    """Return a limit that PCIe sets although the network cards behind it could carry much more; else None."""
    links = np.array(limit.links, dtype=np.int64)
    box = int(boxes.of_node[topology.tails[links[0]]])
    leaving = boxes.leaving(topology)[box]
    nics = int(topology.bandwidths[leaving].sum())
    if nics < _MUCH_MORE * limit.capacity:
        return None
    return PcieLimit(bandwidth=limit.capacity, nics=nics, n_nics=len(leaving))


_MUCH_MORE = 1.3
