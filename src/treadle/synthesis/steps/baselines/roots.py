"""Allreduce in fewer steps for more traffic (section A.3.3)."""

from __future__ import annotations

import numpy as np

from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.steps.baselines.bidirectional import (
    check_collective,
    check_connected,
    check_sends,
)
from treadle.synthesis.steps.bfb import bfb_broadcast, bfb_reduce_scatter, bfb_schedule
from treadle.topologies.distances import eccentricities
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported


def links_of_one_bandwidth(topology: Topology, _: Collective) -> Unsupported | None:
    """All links but self-loops are equally fast."""
    carries = topology.bandwidths[topology.tails != topology.heads]
    if not carries.size or carries.min() == carries.max():
        return None
    return Unsupported(f"{topology.name} has links of different bandwidths; use bfb")


def one_diameter(topology: Topology, collective: Collective) -> StepSchedule:
    """Allreduce within one diameter: every node gets the whole buffer of every other, breadth first.

    Partial sums that travel towards the same node are added on the way, so this is a reduce-scatter whose
    shards are as large as the buffer.

    Parameters
    ----------
    topology : Topology
        Compute nodes only, any graph in which every node reaches every other.
    collective : Collective
        Allreduce on all nodes.

    Raises
    ------
    ScheduleError
        For other collectives and fabrics.
    InfeasibleError
        If a node does not reach another.

    Notes
    -----
    T_L = D instead of 2 D; T_B is N times that of a reduce-scatter: at least (N - 1) M/B.

    Examples
    --------
    >>> from treadle.schedules.collective import on_all_ranks
    >>> from treadle.topologies import parse
    >>> fabric = parse("kautz(2, 2)")
    >>> one_diameter(fabric, on_all_ranks(fabric, CollectiveKind.ALLREDUCE)).n_steps
    3
    """
    check_collective("one-diameter", topology, collective, (CollectiveKind.ALLREDUCE,))
    check_sends("one-diameter", topology)
    check_connected(topology)
    return StepSchedule(CollectiveKind.ALLREDUCE, reduce=bfb_reduce_scatter(topology))


def reduce_broadcast(topology: Topology, collective: Collective) -> StepSchedule:
    """Allreduce within twice the radius: reduce to a central node, broadcast from there.

    Parameters
    ----------
    topology : Topology
        Compute nodes only, links of one bandwidth, every node reaches every other.
    collective : Collective
        Allreduce on all nodes.

    Raises
    ------
    ScheduleError
        For other collectives and fabrics.
    InfeasibleError
        If a node does not reach another.

    Notes
    -----
    The centre is the node whose largest distance to and from the others together is least, the first of
    these. Poor in bandwidth time: the whole buffer goes through the links of one node, step after step.
    """
    check_collective("reduce-broadcast", topology, collective, (CollectiveKind.ALLREDUCE,))
    if (refusal := links_of_one_bandwidth(topology, collective)) is not None:
        raise ScheduleError(f"reduce-broadcast: {refusal}")
    check_sends("reduce-broadcast", topology)  # not that many, but as many distances
    centre = int(np.argmin(eccentricities(topology) + eccentricities(topology.transpose())))
    to_centre = bfb_schedule(topology, CollectiveKind.REDUCE, root=centre)
    return StepSchedule(
        CollectiveKind.ALLREDUCE, reduce=to_centre.reduce, broadcast=bfb_broadcast(topology, centre)
    )
