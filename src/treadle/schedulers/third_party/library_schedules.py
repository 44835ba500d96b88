"""The schedules that NCCL and RCCL run at large sizes, as schedulers: rings or double binary trees."""

from __future__ import annotations

from treadle.errors import ScheduleError
from treadle.refusal import Refusal
from treadle.schedulers.expectations import LARGE_BYTES, expectations_of
from treadle.schedules.collective import Collective
from treadle.schedules.trees.forest import ForestSchedule
from treadle.synthesis.trees.baselines.double_binary_tree import double_binary_tree
from treadle.synthesis.trees.baselines.ring import ring
from treadle.topologies.topology import Topology

SCHEDULER_OF = {"ring": "ring", "tree": "double-binary-tree", "nvls": "nvls"}
"""Treadle's scheduler of each algorithm."""
_MAKERS = {"ring": ring, "tree": double_binary_tree}


def nvidia_gpus(topology: Topology, collective: Collective) -> Refusal | None:
    """Return why NCCL's model does not apply, or None."""
    return _applies("nccl", topology, collective)


def amd_gpus(topology: Topology, collective: Collective) -> Refusal | None:
    """Return why RCCL's model does not apply, or None."""
    return _applies("rccl", topology, collective)


def _applies(library: str, topology: Topology, collective: Collective) -> Refusal | None:
    found = expectations_of(topology, collective, ())
    if isinstance(found, Refusal):
        return found
    assert found.model is not None, "the record names no all-to-all"
    return None if found.model.name == library else Refusal(f"{found.model.name.upper()} runs on its GPUs")


def library_schedule(topology: Topology, collective: Collective) -> ForestSchedule:
    """Make the rings or trees that the fabric's library runs at 1 GB, without NVLink SHARP."""
    found = expectations_of(topology, collective, ())
    if isinstance(found, Refusal) or found.model is None:
        raise ScheduleError(f"no library's model applies: {found}")
    times = dict(found.model.times(collective.kind, LARGE_BYTES))
    algorithm = min((cell for cell in times if cell[0] in _MAKERS), key=lambda cell: times[cell])[0]
    return _MAKERS[algorithm](topology, collective)
