"""The optimal rate for routes that are near it: the primal-dual method starts from their flow.

Routes found by local search are near the flow that the method would have to find first: only the upper
side is left to be closed. Source: docs/how-it-works/all-to-all.md.
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import frozen
from treadle.context import context, under
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.rate.certificate import RateResult, certified, rounded_certificate
from treadle.synthesis.alltoall.rate.flow import ConcurrentFlow
from treadle.synthesis.alltoall.rate.flow_instance import flow_instance
from treadle.synthesis.alltoall.rate.flow_symmetry import known_symmetry
from treadle.synthesis.alltoall.rate.host_caps import without_caps
from treadle.synthesis.alltoall.rate.rate import optimal_rate
from treadle.topologies.topology import Topology

_GAP = 2e-3
"""Between the sides: at 1000 nodes a thirtieth of the time that half of it takes, and 0.01% of the bound."""

_MOST_CELLS = 2**24
"""Ranks times links up to which flows by source are made of routes: 128 MB."""


def rate_with_routes(topology: Topology, collective: Collective, routes: RouteSchedule) -> RateResult:
    """Compute the optimal rate with forwarding cards, from routes near it unless symmetry helps more.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        An all-to-all.
    routes : RouteSchedule
        Routes of it.

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached.

    Examples
    --------
    >>> from treadle.schedules.alltoall.routes import routes_from_paths
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies.catalogue.direct import from_arcs
    >>> pair = from_arcs("pair", [0, 1], [1, 0], n=2)
    >>> routes = routes_from_paths(2, 1, [(0, 1, 1, 0, [0]), (1, 0, 1, 0, [1])])
    >>> rate_with_routes(pair, on_all_ranks(pair, CollectiveKind.ALLTOALL), routes).upper
    Fraction(1, 1)
    """
    free = without_caps(topology)
    cells = collective.n_ranks * topology.n_links
    left = context().seconds_left
    with under(context().unlimited):
        if cells > _MOST_CELLS or not known_symmetry(flow_instance(free, collective)).is_trivial:
            return optimal_rate(topology, collective, time_limit_s=left, cards_forward=True)
        start = flow_of_routes(free, collective, routes)
        return optimal_rate(
            topology, collective, gap=_GAP, time_limit_s=left, start=start, cards_forward=True
        )


def flow_of_routes(topology: Topology, collective: Collective, routes: RouteSchedule) -> RateResult:
    """Convert routes to a flow, certified by lengths that are equal for equal links.

    Parameters
    ----------
    topology : Topology
        Without injection caps.
    collective : Collective
    routes : RouteSchedule
    """
    n, m = collective.n_ranks, topology.n_links
    place = np.repeat(routes.source.astype(np.int64) * m, routes.hops) + routes.path_links
    shares = np.repeat(routes.units / routes.n_chunks, routes.hops)
    by_source = np.bincount(place, weights=shares, minlength=n * m).reshape(n, m)
    flow = ConcurrentFlow(frozen(by_source, np.float64))
    certificate = rounded_certificate(1 / topology.bandwidths)
    return certified(topology, collective, flow.rate(topology), certificate, flow, "routes")
