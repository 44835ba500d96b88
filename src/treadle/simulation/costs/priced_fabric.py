"""A fabric whose links have the latencies and bandwidths that a protocol leaves them: for formulas.

The simulator prices each message by all of its links. Formulas of rates and of farthest ranks know links
only: here a message's alpha and occupancy are latency of the link that enters a rank. That is no more than
the simulator's, which takes the dearest class of a message's links.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treadle.simulation.costs.cost_model import Protocol
from treadle.simulation.costs.link_classes import CLASSES, link_classes
from treadle.topologies.topology import Topology


def priced_fabric(topology: Topology, protocol: Protocol) -> Topology:
    """The fabric as messages of a protocol find it.

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
    for number, name in enumerate(CLASSES):
        cost, of_class = protocol.of(name), classes == number
        latencies[of_class] += cost.hop_ns
        latencies[of_class & enters] += cost.alpha_ns + cost.occupancy_ns
        for bandwidth in np.unique(bandwidths[of_class]).tolist():
            share = cost.efficiency
            rate = max(1, bandwidth * share.numerator // share.denominator)
            bandwidths[of_class & (topology.bandwidths == bandwidth)] = rate
    if protocol.ceiling_bytes_per_s:
        leaves = topology.is_compute[topology.tails]
        bandwidths[leaves] = np.minimum(bandwidths[leaves], protocol.ceiling_bytes_per_s)
    return replace(topology, bandwidths=bandwidths, latencies_ns=latencies)
