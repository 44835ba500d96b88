"""Witnesses of optimality: small values from which anyone can recompute a bound."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.topologies.topology import Topology


@dataclass(frozen=True)
class CutWitness:
    """A set S of nodes that leaves out some rank: the throughput bottleneck cut.

    Parameters
    ----------
    nodes : tuple of int
        Node indices of S, rising.

    Notes
    -----
    Allgather and broadcast: shards of total weight w(S) must leave S, so with W the weight of all shards
    algbw <= W * B+(S) / w(S). Reduce-scatter and reduce: partial results must enter S, so B-(S) stands for
    B+(S). Source: optimality (*) of section 4.4 of the dissertation, with weights.
    """

    nodes: tuple[int, ...]

    def bound(self, topology: Topology, collective: Collective) -> Fraction:
        """The upper bound on algbw, bytes/s, that the cut proves; ScheduleError if it proves none."""
        if collective.kind is CollectiveKind.ALLREDUCE:
            raise ScheduleError("a single cut is no witness for an allreduce")
        inside = np.zeros(topology.n_nodes, dtype=bool)
        inside[list(self.nodes)] = True
        if all(inside[node] for node in collective.ranks):
            raise ScheduleError("the cut contains every rank, so nothing has to cross it")
        demand = sum(
            weight
            for node, weight in zip(collective.ranks, collective.shard_weights, strict=True)
            if inside[node]
        )
        if not demand:
            raise ScheduleError("the cut contains no data, so nothing has to cross it")
        leaving = inside[topology.tails] & ~inside[topology.heads]
        entering = ~inside[topology.tails] & inside[topology.heads]
        crossing = entering if collective.kind.reduces else leaving
        capacity = int(topology.bandwidths[crossing].astype(object).sum())
        return Fraction(capacity * sum(collective.shard_weights), demand)
