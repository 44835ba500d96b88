"""A fabric with the latencies and bandwidths that a protocol leaves to its links, for formulas.

The simulator prices each message by all of its links. Formulas of rates and of farthest ranks have link
latencies and a single alpha: the smallest alpha and occupancy of any message. The rest of a message's costs
becomes latency of the link that enters a rank. A message that comes over the network to a card of the rank's
box ends on a link of the box, at the box's price; the link that enters the card gets the difference to the
network's price.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treadle.arrays import BoolArray, mask_of
from treadle.simulation.costs.cost_model import LinkClass, Protocol
from treadle.simulation.costs.link_classes import CLASSES, data_rates, link_classes
from treadle.topologies.topology import Topology


def priced_fabric(topology: Topology, protocol: Protocol) -> tuple[Topology, int]:
    """Return the fabric under the protocol's costs without the launch, and the alpha of all messages, ns."""
    latencies = topology.latencies_ns.copy()
    enters = topology.is_compute[topology.heads]
    classes = link_classes(topology)
    present = [protocol.of(CLASSES[number]) for number in np.unique(classes[enters]).tolist()]
    common = min((one.alpha_ns + one.occupancy_ns for one in present), default=0)
    # links from the network to a node that leads on within its box
    leads_in = mask_of(topology.n_nodes, topology.tails[classes == CLASSES.index(LinkClass.BOX)])
    of_network = classes == CLASSES.index(LinkClass.NETWORK)
    found: BoolArray = of_network & leads_in[topology.heads] & ~topology.is_compute[topology.heads]
    box, network = protocol.box, protocol.network
    latencies[found] += max(0, network.alpha_ns + network.occupancy_ns - box.alpha_ns - box.occupancy_ns)
    for number, name in enumerate(CLASSES):
        cost, of_class = protocol.of(name), classes == number
        latencies[of_class] += cost.hop_ns
        latencies[of_class & enters] += cost.alpha_ns + cost.occupancy_ns - common
    bandwidths = data_rates(protocol, topology.bandwidths, classes, topology.is_compute[topology.tails])
    return replace(topology, bandwidths=bandwidths, latencies_ns=latencies), common
