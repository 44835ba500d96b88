"""Boxes of direct links: breadth first in the box, directly between ranks of equal place across boxes."""

from __future__ import annotations

from functools import partial

from treadle.schedules.collective import Collective
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.sizes.box_phases import across_and_in_boxes
from treadle.synthesis.steps.bfb.breadth_first import bfb_allgather
from treadle.topologies.topology import Topology

_NAME = "box-bfb"
_MOST_CHUNKS = 16
"""Most chunks of a shard: small sizes are not split finely."""


def box_bfb(topology: Topology, collective: Collective) -> StepSchedule:
    """Across boxes directly among ranks of equal place, then breadth first in each box.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Allgather, reduce-scatter or allreduce of equal shards.

    Raises
    ------
    ScheduleError
        If boxes differ in size, or links between ranks do not join them.
    """
    gather = partial(bfb_allgather, max_chunks=_MOST_CHUNKS)
    return across_and_in_boxes(_NAME, topology, collective, gather)
