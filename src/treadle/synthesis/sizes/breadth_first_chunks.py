"""Breadth-first broadcast in chunks that follow each other, so that sums and copies overlap."""

from __future__ import annotations

from treadle.schedules.collective import Collective
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.steps.urgent_first import in_chunks
from treadle.synthesis.scheduler import (
    equal_shards,
    no_forwarders,
    no_switches,
    tried_with,
)
from treadle.synthesis.sizes.spanning_exchanges import few_ranks
from treadle.synthesis.steps.bfb.breadth_first import bfb_schedule
from treadle.synthesis.trees.baselines.embedding import GATHERING, check_supported
from treadle.topologies.topology import Topology

_NAME = "bfb-pieces"
_NEEDS = (no_switches, no_forwarders, few_ranks, equal_shards)
_MOST_CHUNKS = 16
"""Most chunks of a shard: more seldom pay, since each message has its own occupancy."""
_PARTS = 5
"""Parts of a step to try: on a torus of 8 x 8 no other number up to 6 is faster at 4 MB."""


@tried_with([{"parts": _PARTS}, {"parts": _PARTS, "chunks": 1}])
def bfb_chunks(
    topology: Topology, collective: Collective, *, chunks: int = 2, parts: int = 1
) -> StepSchedule:
    """Breadth-first broadcast, each chunk of all shards a step behind the one before.

    Parameters
    ----------
    topology : Topology
        Without switches.
    collective : Collective
        Allgather, reduce-scatter or allreduce of equal shards.
    chunks : int, optional
        Chunks, default 2.
    parts : int, optional
        Of each step, default 1: of several, what others wait for most goes first (`urgent_first`).

    Raises
    ------
    ScheduleError, InfeasibleError
        As `bfb_schedule`.

    Notes
    -----
    The first and last steps of a breadth-first broadcast carry little, so that links wait there for single
    messages to arrive; other chunks then use them. In parts, a step's last sends go while those that
    the next step waits for have arrived.
    """
    check_supported(_NAME, topology, collective, GATHERING, _NEEDS)
    found = bfb_schedule(topology, collective.kind, max_chunks=_MOST_CHUNKS)
    return in_chunks(found, topology, chunks, parts)
