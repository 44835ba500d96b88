"""One shortest path for every pair: at each node the first link, in order, that leads nearer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.routes.path_sets import (
    PathSet,
    ShortestPaths,
    demanded_pairs,
    no_path,
    path_set,
    single_routes,
)
from treadle.synthesis.alltoall.routes.virtual_channels import with_layers
from treadle.topologies.topology import Topology


def next_links(topology: Topology, collective: Collective) -> Int64Array:
    """First link of a shortest path from every node to each rank, shape (N, n): the lowest; -1 if none."""
    distance = ShortestPaths(topology.transpose(), collective).distances(np.ones(topology.n_links))
    onward = np.full(distance.shape, -1, dtype=np.int64)
    for link in range(topology.n_links - 1, -1, -1):
        tail, head = int(topology.tails[link]), int(topology.heads[link])
        near = np.isfinite(distance[:, head]) & (distance[:, tail] == distance[:, head] + 1)
        onward[near, tail] = link
    return onward


def check_links(
    topology: Topology, link: Int64Array, place: NDArray[np.integer], end: NDArray[np.integer]
) -> None:
    """InfeasibleError if there is no link on from a node towards its end."""
    for i in np.flatnonzero(link < 0)[:1]:
        raise no_path(topology, int(place[i]), int(end[i]))


def first_path_set(topology: Topology, collective: Collective) -> PathSet:
    """The paths of all demanded pairs.

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached.
    """
    onward = next_links(topology, collective)
    source, target, _ = demanded_pairs(collective)
    ranks = np.array(collective.ranks)
    place, columns = ranks[source], list[Int64Array]()
    while np.any(going := place != ranks[target]):
        link = np.where(going, onward[target, place], 0)
        check_links(topology, link, place, ranks[target])
        columns.append(np.where(going, link, -1))
        place = np.where(going, topology.heads[link], place)
    return path_set(source, target, np.column_stack(columns))


def layered_native_routes(topology: Topology, collective: Collective) -> RouteSchedule:
    """One shortest path a pair, in layers without deadlock; `native_routes`."""
    return with_layers(topology, native_routes(topology, collective))


def native_routes(topology: Topology, collective: Collective) -> RouteSchedule:
    """All sends concurrently, each along one path of fewest hops, whatever else uses its links.

    Parameters
    ----------
    topology : Topology
        Every node may forward.
    collective : Collective
        An all-to-all.

    Returns
    -------
    RouteSchedule
        All in layer 0. Of equally short paths the one whose first link has the lowest number, and so on.

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached.

    Notes
    -----
    What NCCL and Open MPI do over the routes that the fabric gives (the all-to-all paper, section 5.2). The
    paper's fabric has deadlock-free routes of its own, which are not published.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies.catalogue.graphs import ring
    >>> fabric = ring(5)
    >>> native_routes(fabric, on_all_ranks(fabric, CollectiveKind.ALLTOALL))
    <RouteSchedule: 5 ranks, 1 chunks, 20 paths, 30 hops, 1 layers>
    """
    return single_routes(collective, first_path_set(topology, collective))
