"""Which sends feed which where switches copy or add up: what the paths of a program leave unsaid."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.program.in_network import in_network_sends
from treadle.program.operation_lists import OperationKind, OperationLists
from treadle.schedules.in_network import inputs_of, members_at, unnamed_crossings
from treadle.topologies.topology import Topology

_Key = tuple[bool, int, int, int, int]
"""Whether sums are sent, a switch, a chunk, who asks for it (-1 where the switch works by itself), and in
which step (-1 in any)."""


@dataclass(frozen=True, eq=False)
class NetworkJoin:
    """Data that pass from one send to another at a switch.

    Parameters
    ----------
    giver, giver_link : int
        Send, and the link of its path that ends at the switch.
    taker, taker_link : int
        Send, and the link of its path that begins at the switch.
    """

    giver: int
    giver_link: int
    taker: int
    taker_link: int


def network_joins(
    topology: Topology, program: OperationLists, partner: Int64Array
) -> tuple[NetworkJoin, ...]:
    """Where copies come from, and which sends take sums along.

    A path that begins at a switch is a copy of what another send of the same chunks brings there; a path that
    ends at a switch is added to what another send of the same chunks carries on from there. The program does
    not name the other send. Trees bring a chunk to a switch once, and take its sum away once; where a program
    has several, the first (copies) or the last (sums) by step is taken. At a switch that works for ranks that
    ask it is one of the same rank, which asks: the sender of copies, the receiver of sums.

    Parameters
    ----------
    topology : Topology
    program : OperationLists
    partner : array of int64, shape (n,)
        From `treadle.runtime.order.match_messages`.

    Raises
    ------
    ScheduleError
        If a switch lacks the capability, or no send brings or takes the chunks.
    """
    found = in_network_sends(topology, program).tolist()
    if not found:
        return ()
    ends = {number: _switches(topology, program, number) for number in found}
    copies, sums = _passing(topology, program, partner, {s for pair in ends.values() for s in pair})
    joins: list[NetworkJoin] = []
    for number in found:
        begin, end = ends[number]
        path = program.links(int(program.path[number]))
        chunks = range(int(program.first[number]), int(program.first[number] + program.count[number]))
        adds = bool(program.operation_kind[partner[number]] == OperationKind.RECEIVE_REDUCE)
        if begin >= 0:
            asker = _asker(topology, program, number, begin, sums=False)
            givers = {
                _only(copies, (adds, begin, chunk, *asker), topology, "brings", number) for chunk in chunks
            }
            joins += [NetworkJoin(giver, link, number, int(path[0])) for giver, link in sorted(givers)]
        if end >= 0:
            asker = _asker(topology, program, number, end, sums=True)
            takers = {_only(sums, (adds, end, chunk, *asker), topology, "takes", number) for chunk in chunks}
            joins += [NetworkJoin(number, int(path[-1]), taker, link) for taker, link in sorted(takers)]
    return tuple(joins)


def _asker(
    topology: Topology, program: OperationLists, number: int, switch: int, *, sums: bool
) -> tuple[int, int]:
    """The rank that asks for a copy or sum, and the step; -1 at switches that work by themselves."""
    if topology.turns_round[switch]:
        return -1, -1
    asker = program.peer[number] if sums else _rank_of(program, number)
    return int(asker), int(program.step[number])


def _rank_of(program: OperationLists, number: int) -> int:
    """The rank of an operation; `program.operation_rank` makes an array of all at each call."""
    return int(np.searchsorted(program.operation_offset, number, side="right")) - 1


@dataclass(frozen=True)
class GroupCrossing:
    """A link that an operation's group crosses while a send is under way, and that no path names.

    Parameters
    ----------
    send : int
        The asker's call: the send that stores, or that takes the sum along.
    call : int
        The link of its path between asker and switch.
    link : int
    chunks : int
    """

    send: int
    call: int
    link: int
    chunks: int


def group_crossings(
    topology: Topology, program: OperationLists, joins: Sequence[NetworkJoin]
) -> tuple[GroupCrossing, ...]:
    """What operations of switches that work for ranks that ask cross besides the program's paths."""
    lanes = inputs_of(topology)
    served: dict[tuple[int, int, int, bool], defaultdict[int, set[int]]] = {}
    for join in joins:
        switch = int(topology.tails[join.taker_link])
        stores = switch == topology.tails[path_ends(program, join.taker)[0]]
        if topology.turns_round[switch]:
            continue
        call, other = (join.giver, join.taker) if stores else (join.taker, join.giver)
        key = call, join.giver_link if stores else join.taker_link, switch, stores
        first = max(int(program.first[call]), int(program.first[other]))
        past = min(int(program.first[i] + program.count[i]) for i in (call, other))
        for chunk in range(first, past):
            for send in (call, other):
                first_link, last_link = path_ends(program, send)
                end = topology.heads[last_link] if stores else topology.tails[first_link]
                served.setdefault(key, defaultdict(set))[chunk].add(int(end))
    found: list[GroupCrossing] = []
    for (send, link, switch, stores), by_chunk in served.items():
        group = members_at(lanes, switch, program.nodes.tolist())
        asker = int(topology.tails[link] if stores else topology.heads[link])
        crossed = Counter(
            other
            for nodes in by_chunk.values()
            for other in unnamed_crossings(lanes, group, nodes, (asker, switch, link), outward=stores)
        )
        found += [GroupCrossing(send, link, other, chunks) for other, chunks in sorted(crossed.items())]
    return tuple(found)


def path_ends(program: OperationLists, send: int) -> tuple[int, int]:
    """The first and the last link of a send's path."""
    path = program.links(int(program.path[send]))
    return int(path[0]), int(path[-1])


def _switches(topology: Topology, program: OperationLists, number: int) -> tuple[int, int]:
    """Switches at which a path begins and ends, -1 where it does so at the ranks of its send."""
    path = program.links(int(program.path[number]))
    rank = _rank_of(program, number)
    begin, end = int(topology.tails[path[0]]), int(topology.heads[path[-1]])
    for node, own, capable, does in (
        (begin, int(program.nodes[rank]), topology.multicast, "copy"),
        (end, int(program.nodes[program.peer[number]]), topology.aggregation, "add up"),
    ):
        if node != own and not capable[node]:
            raise ScheduleError(
                f"simulation: a path begins or ends at {topology.node_names[node]!r}, which does not {does} "
                f"data; expected a path from rank to rank, or a switch that can"
            )
    return (
        begin if begin != program.nodes[rank] else -1,
        end if end != program.nodes[program.peer[number]] else -1,
    )


_Place = tuple[int, int]
"""A send, and a link of its path."""


def _passing(
    topology: Topology, program: OperationLists, partner: Int64Array, switches: set[int]
) -> tuple[dict[_Key, _Place], dict[_Key, _Place]]:
    """The first send that enters each switch with each chunk, and the last that leaves it."""
    enters: dict[_Key, _Place] = {}
    leaves: dict[_Key, _Place] = {}
    through = _links_at(topology, program, switches)
    sends = np.flatnonzero(program.operation_kind == OperationKind.SEND)
    for number in sends[np.argsort(program.step[sends], kind="stable")].tolist():
        first = int(program.first[number])
        adds = bool(program.operation_kind[partner[number]] == OperationKind.RECEIVE_REDUCE)
        for node, link, is_in in through[int(program.path[number])]:
            asker = _asker(topology, program, number, node, sums=not is_in)
            for chunk in range(first, first + int(program.count[number])):
                for step in {asker[1], -1}:
                    key = adds, node, chunk, asker[0], step
                    if is_in:
                        enters.setdefault(key, (number, link))
                    else:
                        leaves[key] = number, link
    return enters, leaves


def _links_at(
    topology: Topology, program: OperationLists, switches: set[int]
) -> defaultdict[int, list[tuple[int, int, bool]]]:
    """For each path the switches that it passes within: (switch, link, whether the link goes into it)."""
    through: defaultdict[int, list[tuple[int, int, bool]]] = defaultdict(list)
    for path in range(program.n_paths):
        links = program.links(path).tolist()
        for link, after in pairwise(links):
            node = int(topology.heads[link])
            # who asks calls the switch by a path to a rank at it
            if node in switches and (topology.turns_round[node] or len(links) == 2):
                through[path] += [(node, link, True), (node, after, False)]
    return through


def _only(places: dict[_Key, _Place], key: _Key, topology: Topology, does: str, number: int) -> _Place:
    if key not in places:
        key = *key[:-1], -1
    if key not in places:
        raise ScheduleError(
            f"simulation: operation {number} joins at switch {topology.node_names[key[1]]!r}, but no send "
            f"{does} chunk {key[2]} there"
        )
    return places[key]
