"""The combinatorial problem behind exact synthesis: shards, chunks, links, steps and rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd

import numpy as np

from treadle.arrays import Int32Array, frozen
from treadle.errors import ScheduleError
from treadle.math.graphs import hops
from treadle.topologies.topology import Topology

MAX_VARIABLES = 4_000_000
"""Largest model: shards x chunks x links x steps."""

_MAX_ROUNDS = 2**24


@dataclass(frozen=True)
class FreeRounds:
    """Rounds that the search may spread over the steps as it likes, at least one per step.

    Parameters
    ----------
    steps : int
        S >= 1.
    total : int
        R >= S, the sum over all steps.
    """

    steps: int
    total: int


Rounds = Sequence[int] | FreeRounds
"""Rounds of each step, or their number to be spread freely."""


@dataclass(frozen=True)
class ExactProblem:
    """Spread every chunk of every shard from its owner to all nodes.

    In a step of r rounds a link carries at most r x `capacity` chunks. What a node holds at the beginning of
    a step it may send in that step, over any number of its links.

    Parameters
    ----------
    n_nodes : int
    tails, heads : tuple of int, length m
        Links without self-loops; `links` has their numbers in the fabric.
    capacity : tuple of int, length m
        Chunks per round: bandwidths divided by their greatest common divisor.
    links : tuple of int, length m
    homes : tuple of int
        Node at which each shard starts.
    chunks : int
        C, per shard.
    rounds : tuple of int or FreeRounds

    Raises
    ------
    ScheduleError
        If a number is out of range or the problem too large.
    """

    n_nodes: int
    tails: tuple[int, ...]
    heads: tuple[int, ...]
    capacity: tuple[int, ...]
    links: tuple[int, ...]
    homes: tuple[int, ...]
    chunks: int
    rounds: tuple[int, ...] | FreeRounds

    def __post_init__(self) -> None:
        if not self.homes or any(not 0 <= home < self.n_nodes for home in self.homes):
            raise ScheduleError(f"exact synthesis: shard owners must be ranks from 0 to {self.n_nodes - 1}")
        if not 1 <= self.chunks <= 2**16:
            raise ScheduleError(f"exact synthesis: chunks must be 1 to 65536, found {self.chunks}")
        rounds = self.rounds
        if isinstance(rounds, FreeRounds):
            if not 1 <= rounds.steps <= rounds.total <= _MAX_ROUNDS:
                raise ScheduleError(
                    f"exact synthesis: {rounds.total} rounds in {rounds.steps} steps; expected at least one "
                    f"step and one round per step"
                )
        elif not rounds or min(rounds) < 1 or sum(rounds) > _MAX_ROUNDS:
            raise ScheduleError(f"exact synthesis: rounds {list(rounds)}; expected at least 1 for each step")
        size = len(self.homes) * self.chunks * len(self.tails) * self.steps
        if size > MAX_VARIABLES:
            raise ScheduleError(
                f"exact synthesis: {size} send variables, at most {MAX_VARIABLES}; "
                f"take fewer chunks or steps, or the bfb algorithm"
            )

    @property
    def steps(self) -> int:
        """Number of steps S."""
        return self.rounds.steps if isinstance(self.rounds, FreeRounds) else len(self.rounds)

    @property
    def total_rounds(self) -> int:
        """Rounds of all steps, R."""
        return self.rounds.total if isinstance(self.rounds, FreeRounds) else sum(self.rounds)

    @cached_property
    def distances(self) -> Int32Array:
        """Hops from node to node, shape (n, n); `steps` + 1 stands for anything beyond `steps`."""
        tails, heads = np.array(self.tails, dtype=np.int64), np.array(self.heads, dtype=np.int64)
        distances = hops(self.n_nodes, tails, heads, np.arange(self.n_nodes))
        distances[(distances < 0) | (distances > self.steps)] = self.steps + 1
        return frozen(distances, np.int32)

    @cached_property
    def late_rounds(self) -> tuple[int, ...]:
        """The rounds, or their latest spread: a link that is usable in a step stays usable, so that this
        one is the best for every single cut."""
        if isinstance(self.rounds, FreeRounds):
            return (1,) * (self.steps - 1) + (self.rounds.total - self.steps + 1,)
        return self.rounds


def exact_problem(topology: Topology, homes: Sequence[int], *, chunks: int, rounds: Rounds) -> ExactProblem:
    """The problem of spreading shards from `homes` over a direct-connect fabric.

    Parameters
    ----------
    topology : Topology
        Compute nodes only, without injection caps.
    homes : sequence of int
        Node of each shard.
    chunks : int
        Per shard.
    rounds : sequence of int or FreeRounds

    Raises
    ------
    ScheduleError
        If the fabric has switches, injection caps, fewer than two nodes, or numbers are out of range.
    """
    if len(topology.switches):
        raise ScheduleError(
            f"exact synthesis: {topology.name} has {len(topology.switches)} switches; it needs a "
            f"direct-connect fabric"
        )
    if topology.injection_bytes_per_s.any():
        raise ScheduleError(f"exact synthesis: {topology.name} has injection caps, which it cannot keep")
    if topology.n_nodes < 2:
        raise ScheduleError(f"exact synthesis: {topology.name} has fewer than 2 nodes")
    useful = np.flatnonzero(topology.tails != topology.heads)
    bandwidths = topology.bandwidths[useful].tolist()
    unit = gcd(*bandwidths) or 1
    return ExactProblem(
        n_nodes=topology.n_nodes,
        tails=tuple(topology.tails[useful].tolist()),
        heads=tuple(topology.heads[useful].tolist()),
        capacity=tuple(bandwidth // unit for bandwidth in bandwidths),
        links=tuple(useful.tolist()),
        homes=tuple(int(home) for home in homes),
        chunks=chunks,
        rounds=rounds if isinstance(rounds, FreeRounds) else tuple(int(r) for r in rounds),
    )
