"""A slow simulator of priced messages, straight from a program's operations: no tasks, no core, no arrays."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from fractions import Fraction

from treadle.program.program import OperationKind, Program
from treadle.runtime.order import match_messages
from treadle.simulation.costs.cost_model import ClassCost, Protocol
from treadle.topologies.topology import Topology

NS = Fraction(1, 10**9)


def priced_time(
    topology: Topology,
    program: Program,
    size_bytes: int,
    protocol: Protocol,
    class_of_link: Mapping[int, ClassCost],
) -> Fraction:
    """Seconds until all messages have come: one slice, links in order of arrival, cut-through.

    A message holds its first link for g and its bytes, and each further link for its bytes, so that it never
    runs dry; the receiver has it alpha after the last link's latency.
    """
    partner = match_messages(program)
    receive_of = {int(partner[i]): i for i in range(program.n_operations) if _kind(program, i).receives}
    ranks, operations = program.operation_rank.tolist(), range(program.n_operations)
    waits = {
        i: [int(one) for one in program.waits[program.wait_offset[i] : program.wait_offset[i + 1]]]
        for i in operations
    }
    ways = {
        i: [int(one) for one in _path(program, i)]
        for i in operations
        if _kind(program, i) == OperationKind.SEND
    }
    missing = {i: len(waits[i]) + _kind(program, i).receives for i in operations}
    followers: dict[int, list[int]] = {i: [] for i in operations}
    for i, needed in waits.items():
        for one in needed:
            followers[one].append(i)
    ready = dict.fromkeys(operations, Fraction(0))
    free: dict[int, Fraction] = {}
    last = Fraction(0)
    queue: list[tuple[Fraction, int, int, int, int]] = []

    def come(operation: int, when: Fraction) -> None:
        ready[operation] = max(ready[operation], when)
        missing[operation] -= 1
        if not missing[operation]:
            begin(operation)

    def begin(operation: int) -> None:
        if operation in ways:
            ask(operation, 0, ready[operation])
        else:
            for one in followers[operation]:
                come(one, ready[operation])

    def ask(operation: int, hop: int, when: Fraction) -> None:
        place = operation - int(program.operation_offset[ranks[operation]])
        heapq.heappush(queue, (when, int(program.step[operation]), place, operation, hop))

    def held(operation: int, hop: int) -> Fraction:
        link = ways[operation][hop]
        cost = class_of_link[link]
        rate = Fraction(
            int(topology.bandwidths[link]) * cost.efficiency.numerator // cost.efficiency.denominator
        )
        if protocol.channels and topology.is_compute[topology.tails[link]]:
            rate = min(rate, Fraction(protocol.channels * protocol.channel_bytes_per_s))
        return Fraction(int(program.count[operation]) * size_bytes, program.n_chunks) / rate

    for i in operations:
        if not missing[i]:
            begin(i)
    while queue:
        when, _, _, operation, hop = heapq.heappop(queue)
        way = ways[operation]
        costs = [class_of_link[link] for link in way]
        own = held(operation, hop) + (max(cost.occupancy_ns for cost in costs) * NS if hop == 0 else 0)
        start = max(when, free.get(way[hop], Fraction(0)))
        end = free[way[hop]] = start + own
        latency = (int(topology.latencies_ns[way[hop]]) + costs[hop].hop_ns) * NS
        if hop == 0:
            for one in followers[operation]:
                come(one, end)
        if hop + 1 < len(way):
            overlap = min(held(operation, hop), held(operation, hop + 1))
            ask(operation, hop + 1, end - overlap + latency)
        else:
            arrives = end + latency + max(cost.alpha_ns for cost in costs) * NS
            last = max(last, arrives)
            come(receive_of[operation], arrives)
    assert not any(missing.values())
    return last + protocol.launch_ns * NS


class _Kind(int):
    @property
    def receives(self) -> bool:
        return self in (OperationKind.RECEIVE, OperationKind.RECEIVE_REDUCE)


def _kind(program: Program, operation: int) -> _Kind:
    return _Kind(program.operation_kind[operation])


def _path(program: Program, operation: int) -> list[int]:
    path = int(program.path[operation])
    links: list[int] = program.path_links[program.path_offset[path] : program.path_offset[path + 1]].tolist()
    return links
