"""Schedules of Cayley graphs by the sends of one node: the others do the same, moved by the group."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.arrays import Int32Array, Int64Array, frozen
from treadle.errors import ScheduleError
from treadle.schedules.steps.steps import Steps
from treadle.schedules.trees.forest import Direction
from treadle.topologies.catalogue.cayley import CayleyGraph

MAX_EXPANDED_SENDS = 2**27
"""Most sends of an expanded schedule."""


@dataclass(frozen=True, eq=False)
class OrbitSchedule:
    """Allgather or reduce-scatter on a Cayley graph, by the sends of one node.

    Parameters
    ----------
    graph : CayleyGraph
        Group and generators s_0, s_1, ...; link x d + i runs from x s_i to x.
    direction : Direction
        BROADCAST: the sends are those into node 0, over its in-links. REDUCE: those out of node 0, over the
        link from 0 to the inverse of s_i.
    n_chunks : int
        P.
    step_offset : array of int64, shape (T + 1,)
        Sends of step t are step_offset[t] up to step_offset[t + 1].
    source, generator, low, high : arrays of int32, shape (n,)
        Shard, generator index i, and chunks [low, high) of each send.
    """

    graph: CayleyGraph
    direction: Direction
    n_chunks: int
    step_offset: Int64Array
    source: Int32Array
    generator: Int32Array
    low: Int32Array
    high: Int32Array

    @property
    def n_steps(self) -> int:
        """T_L in steps."""
        return len(self.step_offset) - 1

    @property
    def n_sends(self) -> int:
        """Sends kept; the whole schedule has N times as many."""
        return len(self.source)

    @property
    def step_of_send(self) -> Int64Array:
        """Step of each send, shape (n,)."""
        return np.repeat(np.arange(self.n_steps), np.diff(self.step_offset))

    @property
    def loads(self) -> Int64Array:
        """Chunks per step and generator, shape (T, d): every link of a generator carries as many."""
        degree = self.graph.degree
        cells = self.step_of_send * degree + self.generator
        total = np.zeros(self.n_steps * degree, dtype=np.int64)
        np.add.at(total, cells, (self.high - self.low).astype(np.int64))
        return total.reshape(self.n_steps, degree)

    @property
    def t_b(self) -> Fraction:
        """T_B in units of M/B, from the loads."""
        return Fraction(
            int(self.loads.max(axis=1).sum()) * self.graph.degree, self.n_chunks * self.graph.n_nodes
        )

    def expand(self) -> Steps:
        """The sends of all nodes, moved by every element; ScheduleError if they are more than 2**27."""
        graph = self.graph
        total = self.n_sends * graph.n_nodes
        if total > MAX_EXPANDED_SENDS:
            raise ScheduleError(
                f"{graph.expression}: {total} sends are too many to write out; keep the orbit"
            )
        elements = np.arange(graph.n_nodes)[:, None]
        base = np.zeros(graph.degree, dtype=np.int64)
        if self.direction is Direction.REDUCE:
            base = graph.group.inverse(graph.generators)
        heads = graph.group.multiply(elements, base)
        shard, link = np.empty(total, np.int32), np.empty(total, np.int32)
        low, high = np.empty(total, np.int32), np.empty(total, np.int32)
        for step in range(self.n_steps):
            first, last = (int(x) for x in self.step_offset[step : step + 2])
            span, out = slice(first, last), slice(first * graph.n_nodes, last * graph.n_nodes)
            generator = self.generator[span]
            shard[out] = graph.group.multiply(elements, self.source[span]).ravel()
            link[out] = (heads[:, generator] * graph.degree + generator).ravel()
            low[out] = np.tile(self.low[span], graph.n_nodes)
            high[out] = np.tile(self.high[span], graph.n_nodes)
        for array in (shard, link, low, high):
            array.setflags(write=False)
        return Steps(
            direction=self.direction,
            n_ranks=graph.n_nodes,
            homes=frozen(np.arange(graph.n_nodes), np.int32),
            n_chunks=self.n_chunks,
            step_offset=frozen(self.step_offset * graph.n_nodes, np.int64),
            shard=shard,
            link=link,
            low=low,
            high=high,
        )
