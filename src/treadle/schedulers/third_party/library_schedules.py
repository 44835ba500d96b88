"""The schedules that NCCL and RCCL run at large sizes, as schedulers: rings or double binary trees."""

from __future__ import annotations

from functools import partial

from treadle.errors import ScheduleError
from treadle.machines.libraries import library_of
from treadle.schedulers.expectations import LARGE_BYTES, system_of_group
from treadle.schedules.collective import Collective
from treadle.schedules.trees.forest import ForestSchedule
from treadle.synthesis.trees.baselines.double_binary_tree import double_binary_tree
from treadle.synthesis.trees.baselines.ring import ring
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

SCHEDULER_OF = {"ring": "ring", "tree": "double-binary-tree", "nvls": "nvls"}
"""Treadle's scheduler of each algorithm."""
_MAKERS = {"ring": ring, "tree": double_binary_tree}


def _refusal(library: str, topology: Topology, collective: Collective) -> Unsupported | None:
    """Return why a library's model does not apply, or None."""
    system = system_of_group(topology, collective)
    if isinstance(system, Unsupported):
        return system
    name = library_of(system).name
    return None if name == library else Unsupported(f"{name.upper()} runs on its GPUs")


nvidia_gpus, amd_gpus = partial(_refusal, "nccl"), partial(_refusal, "rccl")


def library_schedule(topology: Topology, collective: Collective) -> ForestSchedule:
    """Make the rings or trees that the fabric's library runs at 1 GB, without NVLink SHARP."""
    system = system_of_group(topology, collective)
    if isinstance(system, Unsupported):
        raise ScheduleError(f"no library's model applies: {system}")
    times = dict(library_of(system).times(collective.kind, LARGE_BYTES))
    algorithm = min((cell for cell in times if cell[0] in _MAKERS), key=lambda cell: times[cell])[0]
    return _MAKERS[algorithm](topology, collective)
