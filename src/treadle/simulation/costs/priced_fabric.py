"""A fabric whose links have the latencies and bandwidths that a protocol leaves them: for formulas.

The simulator prices each message by all of its links. Formulas of rates and of farthest ranks know links
and one alpha: here that is what every message pays of alpha and occupancy, and what one pays above it is
latency of the link that enters a rank. One that comes over the
network to a card of the rank's box ends on a link of the box, which has the box's price; the link that enters
the card has what the network's is above that.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treadle.arrays import BoolArray, mask_of
from treadle.simulation.costs.cost_model import LinkClass, Protocol
from treadle.simulation.costs.link_classes import CLASSES, link_classes
from treadle.topologies.topology import Topology


def priced_fabric(topology: Topology, protocol: Protocol) -> tuple[Topology, int]:
    """The fabric as messages of a protocol find it, and the alpha of all of them, nanoseconds.

    Parameters
    ----------
    topology : Topology
    protocol : Protocol
        Each link keeps its class's share of its bandwidth, whole bytes/s, at least 1; out of a rank no more
        than all channels carry. Its launch is not counted.
    """
    bandwidths, latencies = topology.bandwidths.copy(), topology.latencies_ns.copy()
    enters = topology.is_compute[topology.heads]
    classes = link_classes(topology)
    present = [protocol.of(CLASSES[number]) for number in np.unique(classes[enters]).tolist()]
    common = min((one.alpha_ns + one.occupancy_ns for one in present), default=0)
    # of each link whether it leads from the network to a node that leads on within its box
    leads_in = mask_of(topology.n_nodes, topology.tails[classes == CLASSES.index(LinkClass.BOX)])
    of_network = classes == CLASSES.index(LinkClass.NETWORK)
    found: BoolArray = of_network & leads_in[topology.heads] & ~topology.is_compute[topology.heads]
    # nanoseconds that a message over the network costs more than one within a box, links aside
    box, network = protocol.box, protocol.network
    latencies[found] += max(0, network.alpha_ns + network.occupancy_ns - box.alpha_ns - box.occupancy_ns)
    for number, name in enumerate(CLASSES):
        cost, of_class = protocol.of(name), classes == number
        latencies[of_class] += cost.hop_ns
        latencies[of_class & enters] += cost.alpha_ns + cost.occupancy_ns - common
        for bandwidth in np.unique(bandwidths[of_class]).tolist():
            share = cost.efficiency
            rate = max(1, bandwidth * share.numerator // share.denominator)
            bandwidths[of_class & (topology.bandwidths == bandwidth)] = rate
    if protocol.ceiling_bytes_per_s:
        leaves = topology.is_compute[topology.tails]
        bandwidths[leaves] = np.minimum(bandwidths[leaves], protocol.ceiling_bytes_per_s)
    return replace(topology, bandwidths=bandwidths, latencies_ns=latencies), common
