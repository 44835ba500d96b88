"""Classic ways to do an all-to-all, to compare with: routes, and steps.

Each takes a fabric and an all-to-all on some of its compute nodes, and raises ScheduleError where it cannot
serve them.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.route_cost import route_algbw, route_loads, route_time
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.baselines.bruck import bruck_exchange
from treadle.synthesis.alltoall.baselines.dimension_order import dimension_order
from treadle.synthesis.alltoall.baselines.equal_weight import equal_weight_loads, equal_weight_shortest_paths
from treadle.synthesis.alltoall.baselines.fractional_routes import mcf_extp, path_mcf_disjoint
from treadle.synthesis.alltoall.baselines.hypercube_exchange import hypercube_exchange
from treadle.synthesis.alltoall.baselines.layered import with_layers
from treadle.synthesis.alltoall.baselines.mesh_exchange import mesh_exchange
from treadle.synthesis.alltoall.baselines.native import native_round_times, native_routes
from treadle.synthesis.alltoall.baselines.pairwise import pairwise_exchange
from treadle.synthesis.alltoall.baselines.single_path_ilp import (
    SinglePathResult,
    best_single_paths,
    ilp_disjoint,
    ilp_shortest,
)
from treadle.synthesis.alltoall.baselines.sssp import single_source_shortest_paths
from treadle.synthesis.alltoall.baselines.torus_exchange import torus_exchange
from treadle.topologies.topology import Topology

Baseline = Callable[[Topology, Collective], RouteSchedule | ExchangeSchedule]


def _ewsp(topology: Topology, collective: Collective) -> RouteSchedule:
    return with_layers(topology, equal_weight_shortest_paths(topology, collective).schedule)


def _sssp(topology: Topology, collective: Collective) -> RouteSchedule:
    return with_layers(topology, single_source_shortest_paths(topology, collective))


def _dor(topology: Topology, collective: Collective) -> RouteSchedule:
    return with_layers(topology, dimension_order(topology, collective))


def _native(topology: Topology, collective: Collective) -> RouteSchedule:
    return with_layers(topology, native_routes(topology, collective))


def _ilp_disjoint(topology: Topology, collective: Collective) -> RouteSchedule:
    return with_layers(topology, ilp_disjoint(topology, collective).schedule)


def _ilp_shortest(topology: Topology, collective: Collective) -> RouteSchedule:
    return with_layers(topology, ilp_shortest(topology, collective).schedule)


ALLTOALL_BASELINES: Mapping[str, Baseline] = MappingProxyType(
    {
        "ewsp": _ewsp,
        "sssp": _sssp,
        "dor": _dor,
        "native": _native,
        "ilp-disjoint": _ilp_disjoint,
        "ilp-shortest": _ilp_shortest,
        "mcf-extp": mcf_extp,
        "path-mcf": path_mcf_disjoint,
        "pairwise": pairwise_exchange,
        "bruck-exchange": bruck_exchange,
        "hypercube-exchange": hypercube_exchange,
        "mesh-exchange": mesh_exchange,
        "torus-exchange": torus_exchange,
    }
)
"""Generators by name, with their defaults; routes have layers without deadlock."""

__all__ = [
    "ALLTOALL_BASELINES",
    "Baseline",
    "SinglePathResult",
    "best_single_paths",
    "bruck_exchange",
    "dimension_order",
    "equal_weight_loads",
    "equal_weight_shortest_paths",
    "hypercube_exchange",
    "ilp_disjoint",
    "ilp_shortest",
    "mcf_extp",
    "mesh_exchange",
    "native_round_times",
    "native_routes",
    "pairwise_exchange",
    "path_mcf_disjoint",
    "route_algbw",
    "route_loads",
    "route_time",
    "single_source_shortest_paths",
    "torus_exchange",
    "with_layers",
]
