"""Assigns copies and sums to GPU-initiated switch operations (NVLink SHARP's multimem).

A plan says so by paths that begin or end at the switch; the program has a send for each. Where a rank's sends
of a part reach all others around the switch they become one store, and where all others' sends are added up
at a rank these become one load that sums. All that is not so complete stays from rank to rank.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from treadle.errors import ScheduleError
from treadle.program.program import Buffer, Program
from treadle.runtime.device.block_parts import PartKind, PartOperation, memories_of, memory_of
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.in_network import inputs_of, members_at
from treadle.topologies.topology import Topology
from treadle.units import format_bandwidth

_LEAST_RANKS = 3
_SLOW = Fraction(5, 4)
"""Largest ratio of the busiest initiator's link time to that of an equal division."""

IN_FLIGHT_BYTES = 512 * 4 * 16
"""Bytes in flight of a block: each of 512 threads has four loads of 16 bytes."""
ROUND_TRIP_S = Fraction(1, 10**6)
"""Time from a load that sums to its result: an assumption, never measured here."""

Key = tuple[int, int, int, bool]
"""An initiating rank, a part, a group, and whether it stores."""


@dataclass
class SwitchParts:
    """Operations of a program that are left to switches.

    Parameters
    ----------
    topology : Topology
        The fabric of the program's paths.
    sums : bool
        Whether switches can add up these elements.
    reached : collection of Buffer
        What switches reach.
    refused : set of Key
        Left to ranks all the same.
    """

    topology: Topology
    program: Program
    sums: bool
    reached: Collection[Buffer] = tuple(Buffer)
    refused: set[Key] = field(default_factory=set)
    groups: list[tuple[int, ...]] = field(default_factory=list)
    asked: list[Key] = field(default_factory=list)
    """Result of `rewritten`."""

    def __post_init__(self) -> None:
        nodes = self.program.nodes.tolist()
        self._group: dict[int, int] = {}
        for switch, group in _groups_of(self.topology, nodes).items():
            self._group[switch] = len(self.groups)
            self.groups.append(group)
        self._stores, self._sums = _paths_at(self.topology, self.program, self._group)

    def rewritten(self, operations: list[PartOperation]) -> list[PartOperation]:
        """Operations of which one asks a switch where the plan has it so; a `Rewriting`."""
        if not self._group:
            return operations
        self.asked = []
        lists = _Lists(operations, self.program.in_place)
        stores: dict[Key, list[int]] = defaultdict(list)
        sums: dict[Key, list[int]] = defaultdict(list)
        for number, one in enumerate(operations):
            if one.kind is not PartKind.SEND or one.path < 0:
                continue
            other = operations[one.partner]
            if other.kind is PartKind.RECEIVE and one.path in self._stores:
                stores[one.rank, one.part, self._stores[one.path][0], True].append(number)
            if other.kind is PartKind.RECEIVE_REDUCE and one.path in self._sums:
                sums[other.rank, other.part, self._sums[one.path][0], False].append(number)
        for found, paths, rewrite in ((sums, self._sums, self._sum), (stores, self._stores, self._store)):
            for key, sends in found.items():
                if key in self.refused or not any(paths[operations[send].path][1] for send in sends):
                    continue
                if rewrite(lists, key, sends):
                    self.asked.append(key)
        return lists.finished()

    def _is_complete(self, key: Key, ranks: Sequence[int]) -> bool:
        return sorted([key[0], *ranks]) == list(self.groups[key[2]])

    def _is_at_one_place(self, group: int, buffer: Buffer) -> bool:
        """Whether the group's switch reaches a buffer, and all its ranks have the same of it."""
        ranges = [self.program.ranges(rank, buffer) for rank in self.groups[group]]
        return buffer in self.reached and bool(ranges[0]) and all(one == ranges[0] for one in ranges)

    def _store(self, lists: _Lists, key: Key, sends: Sequence[int]) -> bool:
        """One store in the place of sends of a part, which stand with nothing between that matters."""
        own = [lists.operations[send] for send in sends]
        receives = [lists.operations[one.partner] for one in own]
        source, target = own[0].source, receives[0].target
        if (
            not self._is_complete(key, [one.rank for one in receives])
            or target is Buffer.SCRATCH
            or any(one.source is not source for one in own)
            or any(one.target is not target for one in receives)
            or not self._is_at_one_place(key[2], target)
        ):
            return False
        store = PartOperation(PartKind.STORE, key[0], key[1], source, target, -1, group=key[2])
        reads, writes = memories_of(store, in_place=self.program.in_place)
        others = [one for one in lists.of[key[0], key[1]] if one not in sends]
        writers = [one for one in others if lists.touches(one, {reads, writes}, only_writes=True)]
        made = [lists.operations[one] for one in writers]
        copies = [(one.kind, lists.memory(one.source), lists.memory(one.target)) for one in made]
        # without a copy it would write at its own rank what nobody else does
        is_copied = reads == writes or copies == [(PartKind.COPY, reads, writes)]
        if not is_copied or any(sends[0] < one < sends[-1] for one in writers):
            return False
        for send in sends:
            lists.now[send] = [store] if send == sends[-1] else []
            lists.partner[lists.operations[send].partner] = sends[-1]
        return True

    def _sum(self, lists: _Lists, key: Key, sends: Sequence[int]) -> bool:
        """One load that sums in the place of a chain of receives; what else is in the chain comes after."""
        if not self.sums:
            return False
        own = [lists.operations[send] for send in sends]
        first, last = min(one.partner for one in own), max(one.partner for one in own)
        source = own[0].source
        chain = [one for one in lists.of[key[0], key[1]] if first <= one <= last]
        receives = [one for one in chain if lists.operations[one].kind is PartKind.RECEIVE_REDUCE]
        others = [one for one in receives if lists.operations[one].partner not in set(sends)]
        links = [lists.operations[one] for one in receives]
        written = {lists.memory(one.target) for one in links} | {lists.memory(source)}
        if (
            not self._is_complete(key, [one.rank for one in own])
            or any(one.source is not source for one in own)
            or not self._is_at_one_place(key[2], source)
            or lists.memory(links[0].source) != lists.memory(source)
            or any(lists.memory(b.source) != lists.memory(a.target) for a, b in pairwise(links))
            or any(lists.touches(one, written) for one in chain if one not in receives)
        ):
            return False
        made = replace(links[0], kind=PartKind.SUM, source=source, partner=-1, group=key[2])
        place = first if others else last
        if not others:
            made = replace(made, target=links[-1].target)
        for receive in receives:
            if receive not in others:
                lists.now[receive] = [made] if receive == place else []
        before = made.target
        for receive in others:
            after = links[-1].target if receive == others[-1] else before
            lists.now[receive] = [replace(lists.operations[receive], source=before, target=after)]
            before = after
        for send in sends:
            one = replace(lists.operations[send], path=-1, target=source)
            lists.now[send] = [replace(one, kind=kind) for kind in (PartKind.EXPOSE, PartKind.RECLAIM)]
            lists.partner[send] = place
        return True

    def check_spread(self, bounds: Sequence[int]) -> None:
        """Reject allreduces in which one rank initiates much more than its part.

        Parameters
        ----------
        bounds : sequence of int
            Of parts, in chunks.

        Raises
        ------
        ScheduleError
            With what its link can carry so.
        """
        if self.program.kind is not CollectiveKind.ALLREDUCE:
            return
        parts: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for rank, part, group, stores in self.asked:
            if not stores:
                parts[group][rank] += bounds[part + 1] - bounds[part]
        for group, by_rank in parts.items():
            members, total = len(self.groups[group]), sum(by_rank.values())
            busiest = max(by_rank, key=lambda rank: by_rank[rank])
            share, fair = Fraction(by_rank[busiest], total), Fraction(1, members)
            if (1 + share) > _SLOW * (1 + fair):
                topology = self.topology
                own = topology.tails == self.program.nodes[busiest]
                links = own & np.isin(topology.heads, list(self._group))
                link = min(topology.bandwidths[links].tolist(), default=0)
                raise ScheduleError(
                    f"slow: rank {busiest} initiates {100 * float(share):.0f}% of the switch reductions: its "
                    f"link of {format_bandwidth(link)} carries {float(1 + share):.3g} times the data, and "
                    f"{format_bandwidth(link / (1 + share))} pass; equal shares of {members} ranks let "
                    f"{format_bandwidth(link / (1 + fair))} pass: use a plan with a root at every rank"
                )

    def check_blocks(self, lanes: int) -> None:
        """Reject one block per rank with switch reductions: it has too few loads in flight.

        Raises
        ------
        ScheduleError
            With what so few can move, by an assumed round trip.
        """
        askers = {key[0] for key in self.asked if not key[3]}
        if lanes > 1 or not askers:
            return
        rate = IN_FLIGHT_BYTES / ROUND_TRIP_S
        raise ScheduleError(
            f"slow: one block of a rank has {IN_FLIGHT_BYTES // 1024} KB of loads that sum under way, "
            f"{format_bandwidth(rate)} at an assumed round trip of 1 us, "
            f"{format_bandwidth(rate * len(askers))} of all {len(askers)} initiating ranks; "
            "use --lanes 2 or more"
        )


class _Lists:
    """Operations, and what some of them are replaced by."""

    def __init__(self, operations: Sequence[PartOperation], in_place: bool) -> None:
        self.operations, self._in_place = operations, in_place
        self.now: dict[int, list[PartOperation]] = {}
        self.partner: dict[int, int] = {}
        """New partners of operations, by their old numbers."""
        self.of: dict[tuple[int, int], list[int]] = defaultdict(list)
        """Operations of a rank on a part, in order."""
        for number, one in enumerate(operations):
            self.of[one.rank, one.part].append(number)

    def memory(self, buffer: Buffer) -> int:
        return memory_of(buffer, in_place=self._in_place)

    def touches(self, number: int, memories: set[int], *, only_writes: bool = False) -> bool:
        """Whether an operation reads or writes some memories."""
        return any(
            memories & set(memories_of(one, in_place=self._in_place)[only_writes:])
            for one in self.now.get(number, [self.operations[number]])
        )

    def finished(self) -> list[PartOperation]:
        """All operations with their new numbers."""
        listed: list[tuple[int, PartOperation]] = []
        number_of: dict[int, int] = {}
        for old, one in enumerate(self.operations):
            number_of[old] = len(listed)
            listed += [(old, each) for each in self.now.get(old, [one])]
        return [
            one
            if one.partner < 0
            else replace(one, partner=number_of[self.partner.get(old, self.operations[old].partner)])
            for old, one in listed
        ]


def _groups_of(topology: Topology, nodes: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """Ranks, each a node, around each switch with GPU-initiated operations."""
    rank_of = {node: rank for rank, node in enumerate(nodes)}
    links = inputs_of(topology)
    able = (topology.multicast | topology.aggregation) & ~topology.turns_round
    found = {switch: members_at(links, switch, nodes) for switch in able.nonzero()[0].tolist()}
    return {
        switch: tuple(sorted(rank_of[node] for node in members))
        for switch, members in found.items()
        if len(members) >= _LEAST_RANKS
    }


def switch_groups(topology: Topology, nodes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Groups of ranks for which switch operations may be initiated.

    Parameters
    ----------
    nodes : sequence of int
        Of the ranks.
    """
    return tuple(dict.fromkeys(_groups_of(topology, nodes).values()))


_AtSwitch = Mapping[int, tuple[int, bool]]
"""Return the switch group of a path, and whether it begins (ends) there."""


def _paths_at(
    topology: Topology, program: Program, group_of: Mapping[int, int]
) -> tuple[_AtSwitch, _AtSwitch]:
    """Paths that may be of a store, and those that may be of a sum."""
    stores: dict[int, tuple[int, bool]] = {}
    sums: dict[int, tuple[int, bool]] = {}
    tails, heads = topology.tails.tolist(), topology.heads.tolist()
    for path in range(program.n_paths) if group_of else ():
        links = program.links(path).tolist()
        first, last, middle = tails[links[0]], heads[links[-1]], heads[links[0]]
        if len(links) == 1:
            if first in group_of and topology.multicast[first]:
                stores[path] = group_of[first], True
            if last in group_of and topology.aggregation[last]:
                sums[path] = group_of[last], True
        elif len(links) == 2 and middle in group_of:
            if topology.multicast[middle]:
                stores[path] = group_of[middle], False
            if topology.aggregation[middle]:
                sums[path] = group_of[middle], False
    return stores, sums
