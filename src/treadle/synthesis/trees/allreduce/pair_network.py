"""The fabric as the allreduce algorithms see it: joined node pairs with their total bandwidth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import count
from math import gcd

from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind, check_membership
from treadle.schedules.in_network import inputs_of
from treadle.topologies.topology import Topology


@dataclass(frozen=True)
class SwitchGroup:
    """A switch with GPU-initiated operations, with the ranks at it.

    Parameters
    ----------
    node : int
        Stands for the operations in graphs: asker -> node -> every member. Numbers follow the nodes'.
    switch : int
    members : tuple of int
        Nodes of the ranks at the switch: an operation's group, 3 or more. With 2, an operation crosses what a
        send crosses and the asker's own link besides, so none is ever worth while.
    up, down : tuple of int
        Pairs (member, switch) and (switch, member).
    multicasts, aggregates : bool
    """

    node: int
    switch: int
    members: tuple[int, ...]
    up: tuple[int, ...]
    down: tuple[int, ...]
    multicasts: bool
    aggregates: bool


@dataclass(frozen=True)
class PairNetwork:
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
        Switches with the capability that work by themselves.
    groups : tuple of SwitchGroup, optional
        Switches with GPU-initiated operations.
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
    groups: tuple[SwitchGroup, ...] = ()

    @property
    def n_vertices(self) -> int:
        """Nodes, and those that stand for groups' operations."""
        return self.n_nodes + len(self.groups)

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

    @cached_property
    def full_groups(self) -> tuple[SwitchGroup, ...]:
        """Groups whose switch both multicasts and aggregates."""
        return tuple(group for group in self.groups if group.multicasts and group.aggregates)

    def unbalanced(self, units: Sequence[int]) -> set[int]:
        """Return the nodes that more or fewer units of pairs enter than leave."""
        surplus = Counter[int]()
        for tail, head, held in zip(self.tails, self.heads, units, strict=True):
            surplus[tail] += held
            surplus[head] -= held
        return {node for node, value in surplus.items() if value}

    def has_uneven_groups(self, topology: Topology) -> bool:
        """Whether parallel links at some group do not divide equally for all members, in both directions."""

        def shape(pair: int) -> tuple[Fraction, ...]:
            width = self.capacity[pair] * self.unit
            return tuple(Fraction(int(topology.bandwidths[e]), width) for e in self.links[pair])

        return any(len({*map(shape, (*group.up, *group.down))}) > 1 for group in self.groups)

    def with_groups(self, groups: Iterable[SwitchGroup]) -> PairNetwork:
        """Return the network with only these of its groups, renumbered."""
        numbered = (replace(group, node=self.n_nodes + i) for i, group in enumerate(groups))
        return replace(self, groups=tuple(numbered))

    def with_full_groups(self, nodes: Iterable[int]) -> frozenset[int]:
        """Return the nodes, with each free group if and only if all of its members are among them.

        This puts operations on the side of a cut that they cross least.
        """
        chosen = frozenset(nodes)
        free = [group for group in self.groups if group.node not in self.ranks]
        full = {group.node for group in free if chosen.issuperset(group.members)}
        return chosen.difference(group.node for group in free) | full

    @cached_property
    def adjacency(self) -> list[list[tuple[int, int]]]:
        """(pair, head) for every pair that leaves each node."""
        out: list[list[tuple[int, int]]] = [[] for _ in range(self.n_nodes)]
        for e, (tail, head) in enumerate(zip(self.tails, self.heads, strict=True)):
            out[tail].append((e, head))
        return out


def network_of(topology: Topology, collective: Collective) -> PairNetwork:
    """Reduce a fabric to its joined node pairs; ScheduleError unless an allreduce on its compute nodes."""
    if collective.kind is not CollectiveKind.ALLREDUCE:
        raise ScheduleError(f"expected an allreduce, found {collective.kind}")
    check_membership(topology, collective)
    links = {ends: members for ends, members in inputs_of(topology).items() if ends[0] != ends[1]}
    bandwidths: Sequence[int] = topology.bandwidths.tolist()
    unit = gcd(*(bandwidths[e] for members in links.values() for e in members)) or 1
    capable = [
        frozenset(v for v in topology.switches.tolist() if flags[v] and topology.turns_round[v])
        for flags in (topology.multicast, topology.aggregation)
    ]
    number = {ends: e for e, ends in enumerate(links)}
    return PairNetwork(
        n_nodes=topology.n_nodes,
        ranks=collective.ranks,
        tails=tuple(tail for tail, _ in links),
        heads=tuple(head for _, head in links),
        capacity=tuple(sum(bandwidths[e] for e in members) // unit for members in links.values()),
        unit=unit,
        links=tuple(tuple(members) for members in links.values()),
        multicast=capable[0],
        aggregation=capable[1],
        groups=tuple(_groups(topology, collective, number)),
    )


def _groups(
    topology: Topology, collective: Collective, number: Mapping[tuple[int, int], int]
) -> Iterator[SwitchGroup]:
    nodes = count(topology.n_nodes)
    able = (topology.multicast | topology.aggregation) & ~topology.turns_round
    for switch in topology.switches[able[topology.switches]].tolist():
        members = tuple(v for v in collective.ranks if (v, switch) in number and (switch, v) in number)
        if len(members) > 2:
            yield SwitchGroup(
                node=next(nodes),
                switch=switch,
                members=members,
                up=tuple(number[v, switch] for v in members),
                down=tuple(number[switch, v] for v in members),
                multicasts=bool(topology.multicast[switch]),
                aggregates=bool(topology.aggregation[switch]),
            )
