"""Routes of the all-to-all paper's fractional flows: MCF-extP (3.1.2, 3.2.1) and path MCF (21)-(24).

`routes` of `solve` finds better paths in less time by generating columns; these are what it is compared with.
"""

from __future__ import annotations

import numpy as np

from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.routes.disjoint_paths import disjoint_paths
from treadle.synthesis.alltoall.routes.path_sets import WeightedPaths
from treadle.synthesis.alltoall.routes.route_units import route_schedule
from treadle.synthesis.alltoall.routes.virtual_channels import with_layers
from treadle.topologies.topology import Topology


def mcf_extp(topology: Topology, collective: Collective) -> RouteSchedule:
    """Widest paths of an optimal flow: the master program, a child for each source, then MCF-extP.

    Raises
    ------
    ScheduleError
        If a linear program has more than 60,000 variables: 128 ranks of degree 4.
    InfeasibleError
        If a rank cannot be reached.
    """
    # here, because the table of schedulers loads this module and few commands need the solver behind it
    from treadle.synthesis.alltoall.rate.mcf_programs import children_mcf, master_mcf
    from treadle.synthesis.alltoall.routes.extract import extract_paths

    master = master_mcf(topology, collective)
    flows = np.zeros((collective.n_ranks, topology.n_links))
    for source, by_target in children_mcf(topology, collective, master.flow).items():
        flows[source] = by_target.sum(axis=0)
    return _whole(topology, collective, extract_paths(topology, collective, flows, widest=True))


def path_mcf_disjoint(topology: Topology, collective: Collective) -> RouteSchedule:
    """The best split of every pair over shortest paths without a link in common.

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached.
    """
    from treadle.synthesis.alltoall.routes.path_mcf import path_mcf

    found = path_mcf(topology, collective, disjoint_paths(topology, collective))
    return _whole(topology, collective, found.routing)


def _whole(topology: Topology, collective: Collective, routing: WeightedPaths) -> RouteSchedule:
    """Whole chunks in proportion to the weights, in layers without deadlock."""
    chunked = route_schedule(topology, collective, routing.paths, routing.weights)
    return with_layers(topology, chunked.schedule)
