"""Throughput of a plan with in-network multicast and aggregation if every transfer is point to point."""

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
    """Cost of executing a plan with ranks in place of switch operations.

    Parameters
    ----------
    n_sends : int
        Sends of a copy or a sum that switches do in the plan, and ranks in the execution.
    algbw : Fraction, optional
        Algbw at large sizes, bytes/s, of the same trees with these transfers from rank to rank: the plan's
        paths, extended to both ends along fewest links. A runtime may choose other routes. None if unknown.

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
    topology: Topology, collective: Collective, program: Program, kept: Given = NOTHING_ASKED
) -> PointToPointGap | None:
    """Return the result of point-to-point execution; None if the plan has no further switch operations.

    The copies and sums of `kept` stay in switches.
    """
    in_switches = _in_switches(topology, program, kept)
    found = set(in_network_sends(topology, program).tolist()) - in_switches
    if not found:
        return None
    if topology.injection_bytes_per_s.any():
        return PointToPointGap(len(found), None)
    loads = _loads(topology, collective, program, in_switches)
    if loads is None:
        return PointToPointGap(len(found), None)
    rates = zip(topology.bandwidths[loads > 0].tolist(), loads[loads > 0].tolist(), strict=True)
    slowest = min(Fraction(bandwidth, load) for bandwidth, load in rates)
    return PointToPointGap(len(found), program.n_chunks * slowest)


def _in_switches(topology: Topology, program: Program, kept: Given) -> set[int]:
    """Return sends whose chunks are all copied, or summed, by the switch where their path begins or ends."""
    found = set()
    for send in in_network_sends(topology, program).tolist() if kept.stores or kept.sums else ():
        rank, links = int(program.operation_rank[send]), program.links(int(program.path[send]))
        is_copy = int(topology.tails[links[0]]) != program.nodes[rank]
        initiator, chunks = (rank, kept.stores) if is_copy else (int(program.peer[send]), kept.sums)
        first = int(program.first[send])
        if all((initiator, chunk) in chunks for chunk in range(first, first + int(program.count[send]))):
            found.add(send)
    return found


def _loads(
    topology: Topology, collective: Collective, program: Program, in_switches: set[int]
) -> Int64Array | None:
    """Return the chunks over each link, shape (m,); None if some path cannot be extended."""
    relays = {*topology.switches.tolist(), *collective.forwarders}
    links_out: list[list[int]] = [[] for _ in range(topology.n_nodes)]
    tails, heads = topology.tails.tolist(), topology.heads.tolist()
    for link, tail in enumerate(tails):
        links_out[tail].append(link)

    @cache
    def route(start: int, end: int) -> tuple[int, ...] | None:
        """Return fewest links from one node to another, through switches and forwarding nodes only."""
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
        links = program.links(path).tolist()
        before: tuple[int, ...] | None = ()
        after: tuple[int, ...] | None = ()
        if send not in in_switches:
            before, after = route(senders[send], tails[links[0]]), route(heads[links[-1]], peers[send])
        if before is None or after is None:
            return None
        for link in (*before, *links, *after):
            loads[link] += int(program.count[send])
    if in_switches:
        passed_on = network_joins(topology, program, match_messages(program))
        in_network = [one for one in passed_on if in_switches & {one.giver, one.taker}]
        for crossed in group_crossings(topology, program, in_network):
            loads[crossed.link] += crossed.chunks
    return loads
