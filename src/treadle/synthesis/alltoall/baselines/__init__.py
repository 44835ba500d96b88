"""Classic ways to do an all-to-all, to compare with: routes, and steps.

Each takes a fabric and an all-to-all on some of its compute nodes, and raises ScheduleError where it cannot
support them.
"""

from treadle.schedules.alltoall.route_cost import route_algbw as route_algbw
from treadle.schedules.alltoall.route_cost import route_loads as route_loads
from treadle.schedules.alltoall.route_cost import route_time as route_time
from treadle.synthesis.alltoall.baselines.bruck import bruck_exchange as bruck_exchange
from treadle.synthesis.alltoall.baselines.bruck import pairwise_exchange as pairwise_exchange
from treadle.synthesis.alltoall.baselines.dimension_order import dimension_order as dimension_order
from treadle.synthesis.alltoall.baselines.equal_weight import (
    equal_weight_shortest_paths as equal_weight_shortest_paths,
)
from treadle.synthesis.alltoall.baselines.first_paths import native_routes as native_routes
from treadle.synthesis.alltoall.baselines.fractional_routes import mcf_extp as mcf_extp
from treadle.synthesis.alltoall.baselines.fractional_routes import path_mcf_disjoint as path_mcf_disjoint
from treadle.synthesis.alltoall.baselines.grid_phases import hypercube_exchange as hypercube_exchange
from treadle.synthesis.alltoall.baselines.grid_phases import mesh_exchange as mesh_exchange
from treadle.synthesis.alltoall.baselines.grid_phases import torus_exchange as torus_exchange
from treadle.synthesis.alltoall.baselines.single_path_ilp import SinglePathResult as SinglePathResult
from treadle.synthesis.alltoall.baselines.single_path_ilp import best_single_paths as best_single_paths
from treadle.synthesis.alltoall.baselines.single_path_ilp import ilp_disjoint as ilp_disjoint
from treadle.synthesis.alltoall.baselines.single_path_ilp import ilp_shortest as ilp_shortest
from treadle.synthesis.alltoall.baselines.sssp import (
    single_source_shortest_paths as single_source_shortest_paths,
)
from treadle.synthesis.alltoall.routes.virtual_channels import with_layers as with_layers
