"""Schedulers that others use, on the same value types: what `compare` shows beside the optimum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from treadle.schedules.collective import Collective
from treadle.schedules.trees.forest import ForestSchedule
from treadle.synthesis.trees.baselines.blink import blink
from treadle.synthesis.trees.baselines.double_binary_tree import double_binary_tree
from treadle.synthesis.trees.baselines.halving_doubling import halving_doubling
from treadle.synthesis.trees.baselines.hierarchical_ring import hierarchical_ring
from treadle.synthesis.trees.baselines.multitree import multitree
from treadle.synthesis.trees.baselines.ring import ring
from treadle.topologies.topology import Topology

BASELINES: Mapping[str, Callable[[Topology, Collective], ForestSchedule]] = MappingProxyType(
    {
        "ring": ring,
        "double-binary-tree": double_binary_tree,
        "halving-doubling": halving_doubling,
        "hierarchical-ring": hierarchical_ring,
        "multitree": multitree,
        "blink": blink,
    }
)
"""Every baseline by name. Each raises ScheduleError for a collective that it does not know."""
