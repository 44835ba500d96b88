"""Which sends feed which where switches copy or add up: what the paths of a program leave unsaid."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.lowering.in_network import in_network_sends
from treadle.lowering.program import OperationKind, Program
from treadle.topologies.topology import Topology

_Key = tuple[bool, int, int]
"""Whether sums are sent, a switch, a chunk."""


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


def network_joins(topology: Topology, program: Program, partner: Int64Array) -> tuple[NetworkJoin, ...]:
    """Where copies come from, and which sends take sums along.

    A path that begins at a switch is a copy of what another send of the same chunks brings there; a path that
    ends at a switch is added to what another send of the same chunks carries on from there. The program does
    not name the other send. Trees bring a chunk to a switch once, and take its sum away once; where a program
    has several, the first (copies) or the last (sums) by step is taken.

    Parameters
    ----------
    topology : Topology
    program : Program
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
            givers = {_only(copies, (adds, begin, chunk), topology, "brings", number) for chunk in chunks}
            joins += [NetworkJoin(giver, link, number, int(path[0])) for giver, link in sorted(givers)]
        if end >= 0:
            takers = {_only(sums, (adds, end, chunk), topology, "takes", number) for chunk in chunks}
            joins += [NetworkJoin(number, int(path[-1]), taker, link) for taker, link in sorted(takers)]
    return tuple(joins)


def _switches(topology: Topology, program: Program, number: int) -> tuple[int, int]:
    """Switches at which a path begins and ends, -1 where it does so at the ranks of its send."""
    path = program.links(int(program.path[number]))
    rank = int(np.searchsorted(program.operation_offset, number, side="right")) - 1
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
    topology: Topology, program: Program, partner: Int64Array, switches: set[int]
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
            for chunk in range(first, first + int(program.count[number])):
                if is_in:
                    enters.setdefault((adds, node, chunk), (number, link))
                else:
                    leaves[adds, node, chunk] = number, link
    return enters, leaves


def _links_at(
    topology: Topology, program: Program, switches: set[int]
) -> defaultdict[int, list[tuple[int, int, bool]]]:
    """For each path the switches that it passes within: (switch, link, whether the link goes into it)."""
    through: defaultdict[int, list[tuple[int, int, bool]]] = defaultdict(list)
    for path in range(program.n_paths):
        links = program.links(path).tolist()
        for link, after in pairwise(links):
            node = int(topology.heads[link])
            if node in switches:
                through[path] += [(node, link, True), (node, after, False)]
    return through


def _only(places: dict[_Key, _Place], key: _Key, topology: Topology, does: str, number: int) -> _Place:
    if key not in places:
        raise ScheduleError(
            f"simulation: operation {number} joins at switch {topology.node_names[key[1]]!r}, but no send "
            f"{does} chunk {key[2]} there"
        )
    return places[key]
