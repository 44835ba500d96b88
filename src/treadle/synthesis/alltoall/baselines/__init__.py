"""Classic ways to do an all-to-all, to compare with: routes, and steps.

Each takes a fabric and an all-to-all on some of its compute nodes, and raises ScheduleError where it cannot
serve them.
"""

from treadle.schedules.alltoall.route_cost import route_algbw, route_loads, route_time
from treadle.synthesis.alltoall.baselines.bruck import bruck_exchange, pairwise_exchange
from treadle.synthesis.alltoall.baselines.dimension_order import dimension_order
from treadle.synthesis.alltoall.baselines.equal_weight import equal_weight_shortest_paths
from treadle.synthesis.alltoall.baselines.first_paths import native_routes
from treadle.synthesis.alltoall.baselines.fractional_routes import mcf_extp, path_mcf_disjoint
from treadle.synthesis.alltoall.baselines.grid_phases import hypercube_exchange, mesh_exchange, torus_exchange
from treadle.synthesis.alltoall.baselines.layered import with_layers
from treadle.synthesis.alltoall.baselines.single_path_ilp import (
    SinglePathResult,
    best_single_paths,
    ilp_disjoint,
    ilp_shortest,
)
from treadle.synthesis.alltoall.baselines.sssp import single_source_shortest_paths

__all__ = [
    "SinglePathResult",
    "best_single_paths",
    "bruck_exchange",
    "dimension_order",
    "equal_weight_shortest_paths",
    "hypercube_exchange",
    "ilp_disjoint",
    "ilp_shortest",
    "mcf_extp",
    "mesh_exchange",
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
