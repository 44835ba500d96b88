"""Predicates on fabrics."""

from __future__ import annotations

import numpy as np

from treadle.arrays import BoolArray, Int32Array, frozen, sums_of
from treadle.math import graphs
from treadle.topologies.topology import Topology


def non_eulerian_nodes(topology: Topology) -> Int32Array:
    """Return the indices of the nodes whose total ingress and egress bandwidths differ, ascending."""
    differ = topology.ingress_bytes_per_s() != topology.egress_bytes_per_s()
    return frozen(np.flatnonzero(differ), np.int32)


def is_symmetric(topology: Topology) -> bool:
    """Whether b_uv = b_vu for all nodes u, v, parallel links added up."""
    tails, heads = topology.tails.astype(np.int64), topology.heads.astype(np.int64)
    keys = np.append(tails * topology.n_nodes + heads, heads * topology.n_nodes + tails)
    distinct, pair = np.unique(keys, return_inverse=True)
    onward, back = (sums_of(len(distinct), links, topology.bandwidths) for links in np.split(pair, 2))
    return bool(np.array_equal(onward, back))


def has_switches(topology: Topology) -> bool:
    """Whether any node is a switch."""
    return bool(topology.switches.size)


def has_uniform_links(topology: Topology) -> bool:
    """Whether all links have the same bandwidth; true without links."""
    return len(np.unique(topology.bandwidths)) <= 1


def is_regular(topology: Topology) -> bool:
    """Whether all nodes have the same number of links in and out; self-loops count, they use a port."""
    n = topology.n_nodes
    degrees = np.concatenate(
        [np.bincount(topology.tails, minlength=n), np.bincount(topology.heads, minlength=n)]
    )
    return len(np.unique(degrees)) <= 1


def unreachable_pair(topology: Topology) -> tuple[int, int] | None:
    """Return two compute nodes (from, to) without a path, or None if every one reaches every other.

    Compute nodes forward here. The first compute node is one of the two.
    """
    nodes = topology.compute_nodes
    if not nodes.size:
        return None
    root = int(nodes[0])
    for backwards in (False, True):
        for other in nodes[~reached(topology, root, backwards=backwards)[nodes]].tolist():
            return (other, root) if backwards else (root, other)
    return None


def reached(topology: Topology, node: int, *, backwards: bool = False) -> BoolArray:
    """Return nodes to which there is a path from `node`, or from which there is one to it, shape (n,).

    Compute nodes forward here.
    """
    tails, heads = topology.tails, topology.heads
    return graphs.reached(topology.n_nodes, *((heads, tails) if backwards else (tails, heads)), node)


def are_ranks_connected(topology: Topology) -> bool:
    """Whether every compute node reaches every other one."""
    return unreachable_pair(topology) is None


def n_components(topology: Topology) -> int:
    """Number of parts that no link joins, whichever way it points; nodes without links are parts."""
    return len(np.unique(graphs.components(topology.n_nodes, topology.tails, topology.heads)))
