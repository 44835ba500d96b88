"""Classic collective algorithms as step schedules on direct-connect fabrics, to compare with.

Each takes a fabric without switches and a collective on all of its nodes, and raises ScheduleError where it
cannot serve them.
"""

from treadle.synthesis.steps.baselines.binary_trees import double_binary_tree_steps
from treadle.synthesis.steps.baselines.full_exchange import bruck, recursive_doubling
from treadle.synthesis.steps.baselines.ring_algorithms import ring_steps, shifted_bfb_ring
from treadle.synthesis.steps.baselines.roots import one_diameter, reduce_broadcast
from treadle.synthesis.steps.baselines.torus import traditional_torus

__all__ = [
    "bruck",
    "double_binary_tree_steps",
    "one_diameter",
    "recursive_doubling",
    "reduce_broadcast",
    "ring_steps",
    "shifted_bfb_ring",
    "traditional_torus",
]
