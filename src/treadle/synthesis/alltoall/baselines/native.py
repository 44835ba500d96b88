"""The native all-to-all: N - 1 sends and receives per rank, each along one shortest path."""

from __future__ import annotations

from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.baselines.first_paths import first_path_set
from treadle.synthesis.alltoall.baselines.layered import with_layers
from treadle.synthesis.alltoall.baselines.route_values import single_routes
from treadle.topologies.topology import Topology


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
