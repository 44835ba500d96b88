"""Routes that are free of deadlock by construction: quick to make, for when time has run out."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.baselines.route_values import single_routes
from treadle.synthesis.alltoall.routes.link_orders import LayeredPaths, layers_of
from treadle.synthesis.alltoall.routes.path_sets import Float64Array, demanded_pairs, merge, path_set
from treadle.topologies.topology import Topology

QUICK_LAYERS = 8
"""Layers of quick routes where no limit is given."""

_PARTS = 12
"""Parts of the pairs, routed one after another."""

_STEEPNESS = 4.0
"""Exponent of a link's length in its relative load."""


def up_down_routes(
    topology: Topology, collective: Collective, *, max_layers: int = QUICK_LAYERS
) -> RouteSchedule | None:
    """One path a pair that climbs the up*/down* order of one of some roots, each root's order in a layer.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        An all-to-all.
    max_layers : int
        Most roots; at least 1.

    Returns
    -------
    RouteSchedule, optional
        None where a pair has no such path, as may be if links lead one way only.

    Notes
    -----
    Routing up and then down from a root never deadlocks (Autonet: Schroeder et al., 1991). Here every layer
    has a root of its own, and a pair takes the shortest path of all layers. Pairs are divided into parts that
    are routed one after another, at lengths that grow with what the links carry already, as in SSSP.
    """
    orders = up_down_orders(topology, max_layers)
    finder = LayeredPaths(topology, collective, orders)
    source, target, demand = demanded_pairs(collective)
    end = finder.ranks[target]
    bandwidth = topology.bandwidths / topology.bandwidths.max()
    times, sets = np.zeros(topology.n_links), []
    for part in range(_PARTS):
        found = finder.search(_lengths(times, bandwidth))
        if not np.isfinite(found.distance[source, end]).all():
            return None
        of = slice(part, None, _PARTS)
        paths = path_set(source[of], target[of], found.paths(source[of], target[of]))
        load = np.bincount(paths.links, weights=demand[of][paths.owner], minlength=topology.n_links)
        times += load / bandwidth
        sets.append(paths)
    paths = merge(*sets)
    layer = layers_of(paths, orders)
    assert layer.min(initial=0) >= 0
    routes = single_routes(collective, paths)
    return replace(routes, layer=np.unique(layer, return_inverse=True)[1].astype(np.int32))


def _lengths(times: Float64Array, bandwidth: Float64Array) -> Float64Array:
    """The time a link takes for a unit, longer where the links have much to carry already; positive."""
    crowded = np.exp(_STEEPNESS * times / (times.max() or 1.0))
    return crowded / bandwidth


def up_down_orders(topology: Topology, count: int) -> Int32Array:
    """Orders of the links, up to one of `count` roots far from each other and then down; shape (count, m).

    Every node takes part, and every pair has a climbing path where each link has one that leads back.
    """
    reach = _neighbours(topology)
    nearest = np.full(topology.n_nodes, topology.n_nodes, dtype=np.int64)
    width = np.bincount(topology.tails, weights=topology.bandwidths, minlength=topology.n_nodes)
    orders = []
    for _ in range(min(count, topology.n_nodes)):
        root = int(np.lexsort((-width, -nearest))[0])  # the farthest from the roots so far, then the widest
        depth = _depths(reach, root)
        orders.append(_up_down(topology, depth))
        nearest = np.minimum(nearest, depth)
    return np.array(orders, dtype=np.int32)


def _up_down(topology: Topology, depth: Int64Array) -> NDArray[np.intp]:
    """Links to nodes nearer to the root, the deepest first; then the others, the nearest first."""
    place = np.empty(topology.n_nodes, dtype=np.int64)
    place[np.argsort(depth, kind="stable")] = np.arange(topology.n_nodes)
    tail, head = place[topology.tails], place[topology.heads]
    is_up = head < tail
    return np.lexsort((np.where(is_up, -tail, tail), ~is_up))


def _neighbours(topology: Topology) -> list[list[int]]:
    reach: list[list[int]] = [[] for _ in range(topology.n_nodes)]
    for tail, head in zip(topology.tails.tolist(), topology.heads.tolist(), strict=True):
        reach[tail].append(head)
    return reach


def _depths(reach: list[list[int]], root: int) -> Int64Array:
    """Hops from the root; the number of nodes where there is no way."""
    depth = np.full(len(reach), len(reach), dtype=np.int64)
    depth[root] = 0
    queue = deque([root])
    while queue:
        node = queue.popleft()
        for head in reach[node]:
            if depth[head] == len(reach):
                depth[head] = depth[node] + 1
                queue.append(head)
    return depth
