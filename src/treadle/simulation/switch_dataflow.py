"""Switch dataflow of a program: which sends bring the inputs of copies and sums at switches.

The paths of a program do not contain it. The crossings of links that no path names are also computed here.
"""

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

_Key = tuple[bool, bool, int, int, int, int]
"""Whether a send enters the switch, whether its receiver adds, switch, chunk, the rank that triggers the
operation (-1: the switch itself), and the step (-1: any)."""


@dataclass(frozen=True, eq=False)
class NetworkJoin:
    """Data that passes from one send to another at a switch.

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
    """Return the sources of copies at switches, and the sends that carry sums on.

    A path that begins at a switch is a copy of the data that another send of the same chunks brings there. A
    path that ends at a switch is added to the data that another send of the same chunks carries on. The
    program does not name the other send. Trees bring a chunk to a switch once, and take its sum away once; if
    a program has several such sends, the first (copies) or the last (sums) by step is used. At switches for
    GPU-initiated operations, the other send belongs to the GPU that triggers the operation: the sender of
    copies, the receiver of sums.

    `partner` is the result of `match_messages`. Raises ScheduleError if a switch lacks the capability, or no
    send brings or takes the chunks.
    """
    found = in_network_sends(topology, program).tolist()
    if not found:
        return ()
    ends = {number: _switches(topology, program, number) for number in found}
    passing = _passing(topology, program, partner, {s for pair in ends.values() for s in pair})
    joins: list[NetworkJoin] = []
    for number in found:
        own = path_ends(program, number)
        chunks = range(int(program.first[number]), int(program.first[number] + program.count[number]))
        adds = bool(program.operation_kind[partner[number]] == OperationKind.RECEIVE_REDUCE)
        for switch, link, is_copy in zip(ends[number], own, (True, False), strict=True):
            if switch < 0:
                continue
            trigger = _trigger(topology, program, number, switch, sums=not is_copy)
            others = {
                _only(passing, (is_copy, adds, switch, chunk, *trigger), topology, number) for chunk in chunks
            }
            joins += [
                NetworkJoin(*other, number, link) if is_copy else NetworkJoin(number, link, *other)
                for other in sorted(others)
            ]
    return tuple(joins)


def _trigger(
    topology: Topology, program: OperationLists, number: int, switch: int, *, sums: bool
) -> tuple[int, int]:
    """Return the rank that triggers a copy or sum, and the step; -1 at switches that act by themselves."""
    if topology.turns_round[switch]:
        return -1, -1
    trigger = program.peer[number] if sums else _rank_of(program, number)
    return int(trigger), int(program.step[number])


def _rank_of(program: OperationLists, number: int) -> int:
    """Return the rank of an operation; `program.operation_rank` makes an array of all ranks at each call."""
    return int(np.searchsorted(program.operation_offset, number, side="right")) - 1


@dataclass(frozen=True)
class GroupCrossing:
    """Chunks that a switch operation's group moves over a link that no path contains.

    Parameters
    ----------
    send : int
        The send of the rank that triggers the operation: the one that stores, or that carries the sum on.
    call : int
        The link of its path between that rank and the switch.
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
    """Return the link crossings of GPU-initiated switch operations in addition to the program's paths."""
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
        trigger = int(topology.tails[link] if stores else topology.heads[link])
        crossed = Counter(
            other
            for nodes in by_chunk.values()
            for other in unnamed_crossings(lanes, group, nodes, (trigger, switch, link), outward=stores)
        )
        found += [GroupCrossing(send, link, other, chunks) for other, chunks in sorted(crossed.items())]
    return tuple(found)


def path_ends(program: OperationLists, send: int) -> tuple[int, int]:
    """Return the first and the last link of a send's path."""
    path = program.links(int(program.path[send]))
    return int(path[0]), int(path[-1])


def _switches(topology: Topology, program: OperationLists, number: int) -> tuple[int, int]:
    """Return the switches where a path begins and ends, -1 if it does so at the ranks of its send."""
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
) -> dict[_Key, _Place]:
    """Return the first send that enters each switch with each chunk, and the last that leaves it."""
    found: dict[_Key, _Place] = {}
    through = _links_at(topology, program, switches)
    sends = np.flatnonzero(program.operation_kind == OperationKind.SEND)
    for number in sends[np.argsort(program.step[sends], kind="stable")].tolist():
        first = int(program.first[number])
        adds = bool(program.operation_kind[partner[number]] == OperationKind.RECEIVE_REDUCE)
        for node, link, is_in in through[int(program.path[number])]:
            trigger = _trigger(topology, program, number, node, sums=not is_in)
            for chunk in range(first, first + int(program.count[number])):
                for step in {trigger[1], -1}:
                    key = is_in, adds, node, chunk, trigger[0], step
                    if not is_in or key not in found:
                        found[key] = number, link
    return found


def _links_at(
    topology: Topology, program: OperationLists, switches: set[int]
) -> defaultdict[int, list[tuple[int, int, bool]]]:
    """Return the inner switches of each path: (switch, link, whether the link enters the switch)."""
    through: defaultdict[int, list[tuple[int, int, bool]]] = defaultdict(list)
    for path in range(program.n_paths):
        links = program.links(path).tolist()
        for link, after in pairwise(links):
            node = int(topology.heads[link])
            # a GPU triggers a switch operation by a path of two links, to a rank at the switch
            if node in switches and (topology.turns_round[node] or len(links) == 2):
                through[path] += [(node, link, True), (node, after, False)]
    return through


def _only(places: dict[_Key, _Place], key: _Key, topology: Topology, number: int) -> _Place:
    if key not in places:
        key = *key[:-1], -1
    if key not in places:
        raise ScheduleError(
            f"simulation: operation {number} joins at switch {topology.node_names[key[2]]!r}, but no send "
            f"{'brings' if key[0] else 'takes'} chunk {key[3]} there"
        )
    return places[key]
