"""Allreduce in fewer steps for more traffic (section A.3.3)."""

from __future__ import annotations

import numpy as np

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps import StepSchedule
from treadle.synthesis.bfb import bfb_broadcast, bfb_reduce_scatter, bfb_schedule
from treadle.synthesis.step_baselines.both_ways import check_collective
from treadle.topologies.distances import distance_matrix
from treadle.topologies.topology import Topology


def one_diameter(topology: Topology, collective: Collective) -> StepSchedule:
    """Allreduce within one diameter: the whole buffer is reduced to every node at once, breadth first.

    Notes
    -----
    T_L = D instead of 2 D; T_B is N times that of a reduce-scatter.
    """
    check_collective("one-diameter", topology, collective, (CollectiveKind.ALLREDUCE,))
    return StepSchedule(CollectiveKind.ALLREDUCE, reduce=bfb_reduce_scatter(topology))


def reduce_broadcast(topology: Topology, collective: Collective) -> StepSchedule:
    """Allreduce within twice the radius: reduce to a central node, broadcast from there.

    Notes
    -----
    The centre is the node whose largest distance to and from the others together is least, the first of
    these. Poor in bandwidth time, as one node's links carry everything.
    """
    check_collective("reduce-broadcast", topology, collective, (CollectiveKind.ALLREDUCE,))
    distance = distance_matrix(topology)
    centre = int(np.argmin(distance.max(axis=1).astype(np.int64) + distance.max(axis=0)))
    to_centre = bfb_schedule(topology, CollectiveKind.REDUCE, root=centre)
    return StepSchedule(
        CollectiveKind.ALLREDUCE, reduce=to_centre.reduce, broadcast=bfb_broadcast(topology, centre)
    )
