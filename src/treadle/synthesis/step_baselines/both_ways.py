"""Reduce-scatter and allreduce from a generator of allgathers (Corollaries 1.1 and 1.2)."""

from __future__ import annotations

from collections.abc import Callable

from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.step_transforms import reverse_by_transpose
from treadle.schedules.steps import Steps, StepSchedule
from treadle.topologies.topology import Topology

_GATHERING = (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLREDUCE)


def both_ways(
    name: str, topology: Topology, collective: Collective, allgather: Callable[[Topology], Steps]
) -> StepSchedule:
    """The collective by `allgather` on the fabric and, reversed, on its transpose.

    Raises
    ------
    ScheduleError
        If the collective is none of allgather, reduce-scatter and allreduce, or not on all nodes in order.
    """
    kind = collective.kind
    check_collective(name, topology, collective, _GATHERING)
    return StepSchedule(
        kind,
        reduce=reverse_by_transpose(topology, allgather) if kind.reduces else None,
        broadcast=allgather(topology) if kind.broadcasts else None,
    )


def check_collective(
    name: str, topology: Topology, collective: Collective, kinds: tuple[CollectiveKind, ...]
) -> None:
    """ScheduleError unless the collective is of one of `kinds`, on all nodes of a fabric without switches."""
    if collective.kind not in kinds:
        raise ScheduleError(f"{name}: serves {', '.join(kinds)}, not {collective.kind}")
    if topology.switches.size:
        raise ScheduleError(f"{name}: {topology.name} has switches; step baselines are for fabrics without")
    if collective.weights is not None or collective.ranks != tuple(range(topology.n_nodes)):
        raise ScheduleError(f"{name}: serves all nodes with equal shards")
