"""The native all-to-all: N - 1 sends and receives per rank, each along one shortest path."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from treadle.schedules.alltoall.route_cost import slowest
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.baselines.first_paths import first_path_set
from treadle.synthesis.alltoall.baselines.layered import with_layers
from treadle.synthesis.alltoall.baselines.route_values import single_routes
from treadle.synthesis.scheduler import scheduler
from treadle.topologies.topology import Topology


@scheduler(
    "native",
    form="routes",
    collectives=("alltoall",),
    source="common practice (NCCL, Open MPI): the all-to-all paper, section 5.2",
)
def layered_native_routes(topology: Topology, collective: Collective) -> RouteSchedule:
    """One shortest path a pair, in layers without deadlock; `native_routes`."""
    return with_layers(topology, native_routes(topology, collective))


def native_routes(topology: Topology, collective: Collective) -> RouteSchedule:
    """All sends at once, each along one path of fewest hops, whatever else uses its links.

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


def native_round_times(
    topology: Topology, collective: Collective, routes: RouteSchedule
) -> tuple[Fraction, ...]:
    """Seconds per unit of demand of N - 1 rounds with a barrier after each; adapters forward.

    In round r every rank i sends what it has for rank (i + r) mod N along its routes.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    routes : RouteSchedule
        That carries it, such as `native_routes`.

    Returns
    -------
    tuple of Fraction, length N - 1
        The busiest link (or capped host) of each round; the sum is at least `route_time` of the routes.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies.catalogue.graphs import ring
    >>> fabric = ring(5)
    >>> everyone = on_all_ranks(fabric, CollectiveKind.ALLTOALL)
    >>> [int(time) for time in native_round_times(fabric, everyone, native_routes(fabric, everyone))]
    [1, 2, 2, 1]
    """
    n = collective.n_ranks
    round_of = (routes.target - routes.source) % n
    caps = topology.injection_bytes_per_s[np.array(collective.ranks)]
    between = collective.pair_demands.between
    ranks = np.arange(n)
    times = []
    for number in range(1, n):
        chosen = np.repeat(round_of == number, routes.hops)
        load = np.zeros(topology.n_links, dtype=np.int64)
        np.add.at(load, routes.path_links[chosen], np.repeat(routes.units, routes.hops)[chosen])
        sent = between[ranks, (ranks + number) % n]
        own = np.maximum(sent, np.roll(sent, number))
        time = slowest(load, topology.bandwidths) / routes.n_chunks
        times.append(max(time, slowest(own[caps > 0], caps[caps > 0])))
    return tuple(times)
