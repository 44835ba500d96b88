"""Step schedules for tests: greedy breadth-first ones, their mirrors, and small hand-made ones."""

from __future__ import annotations

from treadle.schedules.steps.steps import Steps, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.bfb.breadth_first import split
from treadle.synthesis.steps.bfb.in_links import link_rows
from treadle.synthesis.steps.bfb.value import value_of
from treadle.topologies.topology import Topology


def ring_steps(n: int, direction: Direction) -> Steps:
    """The ring algorithm on `ring(n)`: link i leaves rank i; shard v is at home at rank v."""
    if direction is Direction.BROADCAST:
        sends = [(v, (v + t) % n, t, 0, 1) for v in range(n) for t in range(n - 1)]
    else:
        sends = [(v, (v + 1 + t) % n, t, 0, 1) for v in range(n) for t in range(n - 1)]
    return steps_from_sends(direction, n, 1, sends)


def with_chunks(topology: Topology, chunks: int) -> Steps:
    """Breadth-first-broadcast allgather with so many chunks per shard and the least T_B among those."""
    instance = link_rows(topology)
    return split(instance, value_of(instance), chunks)
