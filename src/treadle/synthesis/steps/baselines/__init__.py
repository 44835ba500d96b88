"""Classic collective algorithms as step schedules on direct-connect fabrics, to compare with.

Each takes a fabric without switches and a collective on all of its nodes, and raises ScheduleError where it
cannot serve them.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from treadle.schedules.collective import Collective
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.steps.baselines.binary_trees import (
    best_chunk_count,
    double_binary_tree_steps,
    double_binary_tree_time_s,
)
from treadle.synthesis.steps.baselines.full_exchange import bruck, recursive_doubling
from treadle.synthesis.steps.baselines.rings import ring_steps, shifted_bfb_ring
from treadle.synthesis.steps.baselines.roots import one_diameter, reduce_broadcast
from treadle.synthesis.steps.baselines.torus import traditional_torus
from treadle.topologies.topology import Topology

STEP_BASELINES: Mapping[str, Callable[[Topology, Collective], StepSchedule]] = MappingProxyType(
    {
        "ring-steps": ring_steps,
        "shifted-bfb-ring": shifted_bfb_ring,
        "double-binary-tree-steps": double_binary_tree_steps,
        "traditional-torus": traditional_torus,
        "recursive-doubling": recursive_doubling,
        "bruck": bruck,
        "one-diameter": one_diameter,
        "reduce-broadcast": reduce_broadcast,
    }
)
"""Generators by name."""

__all__ = [
    "STEP_BASELINES",
    "best_chunk_count",
    "bruck",
    "double_binary_tree_steps",
    "double_binary_tree_time_s",
    "one_diameter",
    "recursive_doubling",
    "reduce_broadcast",
    "ring_steps",
    "shifted_bfb_ring",
    "traditional_torus",
]
