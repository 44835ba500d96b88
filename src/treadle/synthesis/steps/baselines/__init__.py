"""Classic collective algorithms as step schedules on direct-connect fabrics, to compare with.

Each takes a fabric without switches and a collective on all of its nodes, and raises ScheduleError where it
does not support them.
"""

from treadle.synthesis.steps.baselines.binary_trees import (
    double_binary_tree_steps as double_binary_tree_steps,
)
from treadle.synthesis.steps.baselines.full_exchange import bruck as bruck
from treadle.synthesis.steps.baselines.full_exchange import recursive_doubling as recursive_doubling
from treadle.synthesis.steps.baselines.ring_algorithms import ring_steps as ring_steps
from treadle.synthesis.steps.baselines.ring_algorithms import shifted_bfb_ring as shifted_bfb_ring
from treadle.synthesis.steps.baselines.roots import one_diameter as one_diameter
from treadle.synthesis.steps.baselines.roots import reduce_broadcast as reduce_broadcast
from treadle.synthesis.steps.baselines.torus import traditional_torus as traditional_torus
