"""Breadth-first broadcast in pieces that follow each other, so that sums and copies overlap."""

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
_PIECES, _MOST_CHUNKS = 2, 16
"""More pieces pay seldom: each message holds its link for a time of its own; chunks of shards beside them."""
_PARTS = 5
"""Of a step, worth a trial: on a torus of 8 x 8 no other number up to 6 is quicker at 4 MB."""


@tried_with([{"parts": _PARTS}, {"parts": _PARTS, "chunks": 1}])
def bfb_chunks(
    topology: Topology, collective: Collective, *, chunks: int | None = None, parts: int | None = None
) -> StepSchedule:
    """Breadth-first broadcast, each piece of all shards a step behind the one before.

    Parameters
    ----------
    topology : Topology
        Without switches.
    collective : Collective
        Allgather, reduce-scatter or allreduce of equal shards.
    chunks : int, optional
        Pieces, default 2.
    parts : int, optional
        Of each step, default 1: of several, what others wait for most goes first (`urgent_first`).

    Raises
    ------
    ScheduleError, InfeasibleError
        As `bfb_schedule`.

    Notes
    -----
    The first and last steps of a breadth-first broadcast carry little, so that links wait there for single
    messages to arrive; other pieces then use them. In parts, a step's last sends go while those that
    the next step waits for have arrived.
    """
    check_supported(_NAME, topology, collective, GATHERING, _NEEDS)
    found = bfb_schedule(topology, collective.kind, max_chunks=_MOST_CHUNKS)
    return in_chunks(found, topology, _PIECES if chunks is None else chunks, 1 if parts is None else parts)
