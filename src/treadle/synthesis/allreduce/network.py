"""The fabric as the allreduce algorithms see it: joined node pairs with their total bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd

from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind, check_membership
from treadle.topologies.topology import Topology


@dataclass(frozen=True)
class Network:
    """Ordered node pairs joined by links, parallel links added up, self-loops left out.

    Parameters
    ----------
    n_nodes : int
    ranks : tuple of int
        Node of each rank.
    tails, heads, capacity : tuple of int, length m
        Per pair; bandwidth in units of `unit` bytes/s.
    unit : int
        Greatest common divisor of the links' bandwidths.
    links : tuple of tuple of int
        The parallel links of each pair.
    multicast, aggregation : frozenset of int
        Switches with the capability.
    """

    n_nodes: int
    ranks: tuple[int, ...]
    tails: tuple[int, ...]
    heads: tuple[int, ...]
    capacity: tuple[int, ...]
    unit: int
    links: tuple[tuple[int, ...], ...]
    multicast: frozenset[int]
    aggregation: frozenset[int]

    @property
    def n_pairs(self) -> int:
        """Number of ordered pairs m."""
        return len(self.tails)

    @cached_property
    def reverse(self) -> tuple[int, ...]:
        """The opposite of each pair, -1 if it has no link."""
        number = {ends: e for e, ends in enumerate(zip(self.tails, self.heads, strict=True))}
        return tuple(number.get((head, tail), -1) for tail, head in number)

    @cached_property
    def is_symmetric(self) -> bool:
        """Each direction of every pair has the same bandwidth."""
        return all(r >= 0 and self.capacity[r] == b for r, b in zip(self.reverse, self.capacity, strict=True))

    @cached_property
    def branching(self) -> tuple[int, ...]:
        """Switches that both multicast and aggregate: trees may branch and root there."""
        return tuple(sorted(self.multicast & self.aggregation))

    @cached_property
    def roots(self) -> tuple[int, ...]:
        """Ranks, then branching switches."""
        return (*self.ranks, *self.branching)

    def adjacency(self) -> list[list[tuple[int, int]]]:
        """(pair, head) for every pair that leaves each node."""
        out: list[list[tuple[int, int]]] = [[] for _ in range(self.n_nodes)]
        for e, (tail, head) in enumerate(zip(self.tails, self.heads, strict=True)):
            out[tail].append((e, head))
        return out


def network_of(topology: Topology, collective: Collective) -> Network:
    """Reduce a fabric to its joined node pairs; ScheduleError unless an allreduce on its compute nodes."""
    if collective.kind is not CollectiveKind.ALLREDUCE:
        raise ScheduleError(f"expected an allreduce, found {collective.kind}")
    check_membership(topology, collective)
    links: dict[tuple[int, int], list[int]] = {}
    for e, ends in enumerate(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)):
        if ends[0] != ends[1]:
            links.setdefault(ends, []).append(e)
    bandwidths: Sequence[int] = topology.bandwidths.tolist()
    unit = gcd(*(bandwidths[e] for members in links.values() for e in members)) or 1
    capable = [
        frozenset(v for v in topology.switches.tolist() if flags[v])
        for flags in (topology.multicast, topology.aggregation)
    ]
    return Network(
        n_nodes=topology.n_nodes,
        ranks=collective.ranks,
        tails=tuple(tail for tail, _ in links),
        heads=tuple(head for _, head in links),
        capacity=tuple(sum(bandwidths[e] for e in members) // unit for members in links.values()),
        unit=unit,
        links=tuple(tuple(members) for members in links.values()),
        multicast=capable[0],
        aggregation=capable[1],
    )
