"""Boxes of a fabric: which nodes share a host, by the names of ranks and by what is nearest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.arrays import BoolArray, Int64Array
from treadle.topologies.topology import Topology

NETWORK = -1
"""In the place of a box's number: a switch that belongs to none."""


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes of a fabric's nodes.

    Parameters
    ----------
    of_node : array of int64, shape (nodes,)
        Box of each node; `NETWORK` of switches between boxes.
    count : int
    """

    of_node: Int64Array
    count: int

    def leaving(self, topology: Topology) -> list[Int64Array]:
        """Return the links that leave each box."""
        ends = self.of_node[topology.tails], self.of_node[topology.heads]
        return [np.flatnonzero((ends[0] == box) & (ends[1] != box)) for box in range(self.count)]


def rank_boxes(topology: Topology, hosts: Sequence[str] = ()) -> tuple[int, ...]:
    """Return the box of each rank, numbered as they appear.

    Parameters
    ----------
    topology : Topology
    hosts : sequence of str, optional
        Host of each rank in the log. Where they are as many and as large as the groups of ranks whose names
        have the same part before the last dot, those groups are the boxes, whatever the order of ranks;
        without hosts too. Else a box is a host, or all ranks if that is unknown.
    """
    names = [topology.node_names[node] for node in topology.compute_nodes.tolist()]
    groups = [name.rpartition(".")[0] for name in names]
    is_same = sorted(Counter(groups).values()) == sorted(Counter(hosts).values())
    words = groups if is_same or not hosts else hosts
    numbers: dict[str, int] = {}
    return tuple(numbers.setdefault(word, len(numbers)) for word in words)


_NO_NIC_BYTES_PER_S = 100 * 10**9
"""Faster than this no network card is (800 Gbit/s): a link that is comes from an NVSwitch."""


def nvswitches(topology: Topology) -> BoolArray:
    """Return the switches that join GPUs alone, by links faster than any network card's; shape (nodes,)."""
    n = topology.n_nodes
    found = ~topology.is_compute
    found[topology.tails[~topology.is_compute[topology.heads]]] = False  # one that leads to a switch
    fast = np.bincount(topology.tails, weights=topology.bandwidths > _NO_NIC_BYTES_PER_S, minlength=n)
    return found & (fast > 1)


def joined_by_nvswitches(topology: Topology, of_rank: Sequence[int]) -> tuple[int, ...]:
    """Return the box of each rank, where hosts that share NVSwitches (an NVL72) are one box."""
    box_of = dict(zip(topology.compute_nodes.tolist(), of_rank, strict=True))
    merged = list(range(max(of_rank) + 1))
    for switch in np.flatnonzero(nvswitches(topology)).tolist():
        boxes = {merged[box_of[node]] for node in topology.heads[topology.tails == switch].tolist()}
        merged = [min(boxes) if box in boxes else box for box in merged]
    numbers: dict[int, int] = {}
    return tuple(numbers.setdefault(merged[box], len(numbers)) for box in of_rank)


def find_boxes(topology: Topology, of_rank: Sequence[int]) -> Boxes:
    """Give each switch to the box whose ranks are nearest; if they are of several boxes, to the network.

    Parameters
    ----------
    topology : Topology
    of_rank : sequence of int
        Box of each rank, from 0.
    """
    count = max(of_rank) + 1
    unknown = count
    of_node = np.full(topology.n_nodes, unknown, dtype=np.int64)
    of_node[topology.compute_nodes] = of_rank
    pairs = np.concatenate(
        [np.stack([topology.tails, topology.heads]), np.stack([topology.heads, topology.tails])], 1
    )
    while True:
        fresh = pairs[:, (of_node[pairs[0]] != unknown) & (of_node[pairs[1]] == unknown)]
        if not fresh.size:
            break
        nearest = of_node[fresh[0]]
        least, most = np.full(topology.n_nodes, unknown), np.full(topology.n_nodes, NETWORK)
        np.minimum.at(least, fresh[1], nearest)
        np.maximum.at(most, fresh[1], nearest)
        reached = np.unique(fresh[1])
        of_node[reached] = np.where(least[reached] == most[reached], least[reached], NETWORK)
    of_node[of_node == unknown] = NETWORK  # switches that no rank reaches
    return Boxes(of_node, count)
