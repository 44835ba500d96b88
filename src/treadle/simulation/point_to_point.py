"""What a plan that relies on in-network copies and sums is worth where every transfer is point to point."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from treadle.arrays import Int64Array
from treadle.brief import brief
from treadle.formats.request import NOTHING_ASKED, Given
from treadle.program.in_network import in_network_sends
from treadle.program.program import OperationKind, Program
from treadle.runtime.order import match_messages
from treadle.schedules.collective import Collective
from treadle.simulation.switch_dataflow import group_crossings, network_joins
from treadle.topologies.topology import Topology


@brief("n_sends", "algbw")
@dataclass(frozen=True)
class PointToPointGap:
    """How far execution falls short of a plan where ranks do what the plan leaves to switches.

    Parameters
    ----------
    n_sends : int
        Sends that stand for a copy or a sum which the plan leaves to switches, and the execution does not.
    algbw : Fraction, optional
        Asymptotic, bytes/s, of the same trees with these transfers from rank to rank: their paths of the
        plan, completed to both ends along fewest links. A runtime may choose other routes. None: not known.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("dgx_h100(1, nvls=True)", "allreduce")
    >>> short = treadle.lower(plan, to="msccl-xml", instances=1).shortfall
    >>> short.n_sends, short.algbw, plan.algbw
    (96, Fraction(1800000000000, 7), Fraction(400000000000, 1))
    """

    n_sends: int
    algbw: Fraction | None


def point_to_point_gap(
    topology: Topology, collective: Collective, program: Program, asked: Given = NOTHING_ASKED
) -> PointToPointGap | None:
    """What point-to-point execution reaches, or None where the plan needs nothing more of the network.

    Parameters
    ----------
    topology : Topology
        The fabric that the program's paths are on.
    collective : Collective
    program : Program
    asked : Asked, optional
        What is left to switches all the same.
    """
    served = _served(topology, program, asked)
    found = set(in_network_sends(topology, program).tolist()) - served
    if not found:
        return None
    if topology.injection_bytes_per_s.any():
        return PointToPointGap(len(found), None)
    loads = _loads(topology, collective, program, served)
    if loads is None:
        return PointToPointGap(len(found), None)
    rates = zip(topology.bandwidths[loads > 0].tolist(), loads[loads > 0].tolist(), strict=True)
    slowest = min(Fraction(bandwidth, load) for bandwidth, load in rates)
    return PointToPointGap(len(found), program.n_chunks * slowest)


def _served(topology: Topology, program: Program, asked: Given) -> set[int]:
    """Sends whose chunks are all copied, or summed, by the switch at which their path begins or ends."""
    found = set()
    for send in in_network_sends(topology, program).tolist() if asked.stores or asked.sums else ():
        rank, links = int(program.operation_rank[send]), program.links(int(program.path[send]))
        stores = int(topology.tails[links[0]]) != program.nodes[rank]
        asker, chunks = (rank, asked.stores) if stores else (int(program.peer[send]), asked.sums)
        first = int(program.first[send])
        if all((asker, chunk) in chunks for chunk in range(first, first + int(program.count[send]))):
            found.add(send)
    return found


def _add_operations(topology: Topology, program: Program, served: set[int], loads: Int64Array) -> None:
    """What the groups of served operations cross besides paths."""
    joins = network_joins(topology, program, match_messages(program))
    mine = [join for join in joins if join.giver in served or join.taker in served]
    for crossing in group_crossings(topology, program, mine):
        loads[crossing.link] += crossing.chunks


def _loads(
    topology: Topology, collective: Collective, program: Program, served: set[int]
) -> Int64Array | None:
    """Chunks over each link, shape (m,); None if some path cannot be completed."""
    relays = {*topology.switches.tolist(), *collective.forwarders}
    links_out: list[list[int]] = [[] for _ in range(topology.n_nodes)]
    tails, heads = topology.tails.tolist(), topology.heads.tolist()
    for link, tail in enumerate(tails):
        links_out[tail].append(link)

    @cache
    def route(start: int, end: int) -> tuple[int, ...] | None:
        """Fewest links from one node to another, through switches and forwarders only."""
        into: dict[int, int] = {start: -1}
        queue = deque([start])
        while queue and end not in into:
            node = queue.popleft()
            for link in links_out[node] if node == start or node in relays else ():
                if heads[link] not in into:
                    into[heads[link]] = link
                    queue.append(heads[link])
        if end not in into:
            return None
        links: list[int] = []
        while end != start:
            links.append(into[end])
            end = tails[links[-1]]
        return tuple(reversed(links))

    loads = np.zeros(topology.n_links, dtype=np.int64)
    senders, peers = program.nodes[program.operation_rank].tolist(), program.nodes[program.peer].tolist()
    for send in np.flatnonzero(program.operation_kind == OperationKind.SEND).tolist():
        path = int(program.path[send])
        links = program.path_links[program.path_offset[path] : program.path_offset[path + 1]].tolist()
        before: tuple[int, ...] | None = ()
        after: tuple[int, ...] | None = ()
        if send not in served:
            before, after = route(senders[send], tails[links[0]]), route(heads[links[-1]], peers[send])
        if before is None or after is None:
            return None
        for link in (*before, *links, *after):
            loads[link] += int(program.count[send])
    if served:
        _add_operations(topology, program, served, loads)
    return loads
