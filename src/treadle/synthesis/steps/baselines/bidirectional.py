"""Reduce-scatter and allreduce from a generator of allgathers (Corollaries 1.1 and 1.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.step_transforms import reverse
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.synthesis.scheduler import equal_shards, no_forwarders, no_switches
from treadle.synthesis.trees.baselines.embedding import GATHERING
from treadle.topologies.distances import distance_matrix
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

MAX_SENDS = 5 * 10**7
"""Most sends of a phase: some 4 GB of memory while they are made."""


def all_nodes_in_order(topology: Topology, collective: Collective) -> Unsupported | None:
    """Rank i is node i, and shards are equal."""
    if collective.weights is None and collective.ranks == tuple(range(topology.n_nodes)):
        return None
    return Unsupported("serves all nodes, in order and with equal shards; use bfb or forestcoll")


WHOLE_FABRIC = (no_switches, no_forwarders, equal_shards, all_nodes_in_order)
"""What the classic algorithms need of a problem."""


def both_directions(
    name: str, topology: Topology, collective: Collective, spread: Callable[[Topology], Steps]
) -> StepSchedule:
    """The collective by `spread` on the fabric and, reversed, on its transpose.

    Parameters
    ----------
    name : str
        Of the algorithm, for messages.
    topology : Topology
    collective : Collective
    spread : callable
        An allgather for the topology that it is given. For an allreduce its shards may have other homes than
        one on each rank.

    Raises
    ------
    ScheduleError
        If the collective is none of allgather, reduce-scatter and allreduce, or not on all nodes in order.
    """
    kind = collective.kind
    check_collective(name, topology, collective, GATHERING)
    return StepSchedule(
        kind,
        reduce=gathered(topology, spread) if kind.reduces else None,
        broadcast=spread(topology) if kind.broadcasts else None,
    )


def gathered(topology: Topology, spread: Callable[[Topology], Steps]) -> Steps:
    """The reduction that is `spread` on the transpose, run backwards.

    Messages of `spread` name the fabric that the user knows.
    """
    return reverse(spread(replace(topology.transpose(), name=topology.name)))


def check_collective(
    name: str, topology: Topology, collective: Collective, kinds: tuple[CollectiveKind, ...]
) -> None:
    """ScheduleError unless the collective is of one of `kinds`, on all nodes of a fabric without switches."""
    if collective.kind not in kinds:
        raise ScheduleError(f"{name}: serves {', '.join(kinds)}, not {collective.kind}")
    if topology.switches.size:
        raise ScheduleError(f"{name}: {topology.name} has switches; expected compute nodes only")
    if (refusal := all_nodes_in_order(topology, collective)) is not None:
        raise ScheduleError(f"{name}: {refusal}")


def check_sends(name: str, topology: Topology, parts: int = 1) -> None:
    """ScheduleError, before anything large is made, if N^2 sends for each of `parts` are too many."""
    sends = parts * topology.n_nodes**2
    if sends > MAX_SENDS:
        raise ScheduleError(
            f"{name}: {topology.name} would take about {sends} sends, more than {MAX_SENDS}; use fewer nodes"
        )


def check_connected(topology: Topology) -> None:
    """InfeasibleError, about the fabric and not its transpose, unless every node reaches every other.

    For algorithms that take the square of the number of nodes anyway.
    """
    distance_matrix(topology)
