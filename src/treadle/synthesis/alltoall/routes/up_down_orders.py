"""Orders of the links up to a root and down again: every pair has a way where all links have one back."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int32Array, positions_of
from treadle.math.graphs import hops
from treadle.topologies.topology import Topology


def up_down_orders(topology: Topology, count: int) -> Int32Array:
    """Orders of the links, up to one of `count` roots far from each other and then down; shape (count, m).

    Every node takes part, and every pair has a climbing path where each link has one that leads back: routing
    up and then down from a root never deadlocks (Autonet: Schroeder et al., 1991).
    """
    nearest = np.full(topology.n_nodes, topology.n_nodes, dtype=np.int64)
    width = np.bincount(topology.tails, weights=topology.bandwidths, minlength=topology.n_nodes)
    orders = []
    for _ in range(min(count, topology.n_nodes)):
        root = int(np.lexsort((-width, -nearest))[0])  # the farthest from the roots so far, then the widest
        depth = hops(topology.n_nodes, topology.tails, topology.heads, np.array([root]))[0]
        depth[depth < 0] = topology.n_nodes
        # links to nodes nearer to the root, the deepest first; then the others, the nearest first
        place = positions_of(topology.n_nodes, np.argsort(depth, kind="stable"))
        tail, head = place[topology.tails], place[topology.heads]
        orders.append(np.lexsort((np.where(head < tail, -tail, tail), head >= tail)))
        nearest = np.minimum(nearest, depth)
    return np.array(orders, dtype=np.int32)
