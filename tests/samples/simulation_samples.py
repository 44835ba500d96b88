"""Small fabrics and programs whose course can be told by hand, and a slow simulator to compare with."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from fractions import Fraction

from treadle.program.program import Buffer, Operation, OperationKind, Program, program_from_operations
from treadle.schedules.collective import CollectiveKind
from treadle.simulation.clock import TimedGraph
from treadle.simulation.simulation_options import Sharing
from treadle.topologies.topology import Topology, TopologyBuilder

RATE = 10**9
"""Bytes/s of one link: a byte takes a nanosecond."""


def chain(n: int, *, latency_ns: int = 0, rates: Sequence[int] = ()) -> Topology:
    """Ranks a, b, ... in a row, with a switch between one and the next; links 0 to 2n - 3 go to the right."""
    builder = TopologyBuilder("chain")
    names = [builder.compute("abcdef"[i]) for i in range(n)]
    speeds = list(rates) or [RATE] * (2 * n - 2)
    for i in range(n - 1):
        builder.switch(f"sw{i}")
        builder.link(names[i], f"sw{i}", speeds[2 * i], latency_ns)
        builder.link(f"sw{i}", names[i + 1], speeds[2 * i + 1], latency_ns)
    return builder.build()


def relay(n: int) -> Program:
    """A broadcast from rank 0 along the chain."""
    ranks: list[list[Operation]] = []
    for rank in range(n):
        operations = []
        if rank > 0:
            operations.append(Operation(OperationKind.RECEIVE, 0, 1, peer=rank - 1, step=rank - 1))
        if rank < n - 1:
            source, waits = (Buffer.OUTPUT, (0,)) if rank else (Buffer.INPUT, ())
            send = Operation(OperationKind.SEND, 0, 1, rank + 1, source, step=rank, path=rank, waits=waits)
            operations.append(send)
        ranks.append(operations)
    return program_from_operations(
        CollectiveKind.BROADCAST,
        ranks,
        n_chunks=1,
        shard_offset=[0, *([1] * n)],
        root=0,
        paths=[(2 * i, 2 * i + 1) for i in range(n - 1)],
    )


def star(n: int, *, capable: bool = False, cap: int = 0) -> Topology:
    """Ranks around a switch; link 2i goes from rank i to the switch, link 2i + 1 back."""
    builder = TopologyBuilder("star")
    names = [builder.compute("abcdef"[i], injection_bytes_per_s=cap) for i in range(n)]
    builder.switch("sw", multicast=capable, aggregation=capable, turns_round=capable)
    for name in names:
        builder.duplex(name, "sw", RATE)
    return builder.build()


def messages(
    n: int, sends: Sequence[tuple[int, int, int, int]], paths: Sequence[Sequence[int]], n_chunks: int
) -> Program:
    """Independent messages (from, to, chunks, path) of an allreduce's reducing part; no waits."""
    ranks: list[list[Operation]] = [[] for _ in range(n)]
    first = 0
    for tail, head, count, path in sends:
        ranks[tail].append(Operation(OperationKind.SEND, first, count, peer=head, path=path))
        ranks[head].append(Operation(OperationKind.RECEIVE_REDUCE, first, count, peer=tail))
        first += count
    return program_from_operations(
        CollectiveKind.ALLREDUCE,
        ranks,
        n_chunks=n_chunks,
        shard_offset=[0] * n + [n_chunks],
        paths=paths,
    )


def one_to_two() -> Program:
    """Rank 0 sends to rank 1; the switch copies that for rank 2."""
    return program_from_operations(
        CollectiveKind.BROADCAST,
        [
            [
                Operation(OperationKind.SEND, 0, 1, peer=1, path=0),
                Operation(OperationKind.SEND, 0, 1, peer=2, path=1),
            ],
            [Operation(OperationKind.RECEIVE, 0, 1, peer=0)],
            [Operation(OperationKind.RECEIVE, 0, 1, peer=0)],
        ],
        n_chunks=1,
        shard_offset=[0, 1, 1, 1],
        root=0,
        paths=[(0, 3), (5,)],
    )


def two_to_one() -> Program:
    """Ranks 1 and 2 send to rank 0; the switch adds rank 2's data to rank 1's."""
    return program_from_operations(
        CollectiveKind.REDUCE,
        [
            [
                Operation(OperationKind.RECEIVE_REDUCE, 0, 1, peer=1),
                Operation(OperationKind.RECEIVE_REDUCE, 0, 1, peer=2, waits=(0,)),
            ],
            [Operation(OperationKind.SEND, 0, 1, peer=0, path=0)],
            [Operation(OperationKind.SEND, 0, 1, peer=0, path=1)],
        ],
        n_chunks=1,
        shard_offset=[0, 1, 1, 1],
        root=0,
        paths=[(2, 1), (4,)],
    )


def slow_times(timed: TimedGraph, slices: int, sharing: Sharing) -> dict[tuple[int, int], Fraction]:
    """Start of every (slice, task) in ticks, by lists and a heap of moments."""
    graph = timed.graph
    edges = [
        [
            (int(graph.edge_target[e]), int(timed.edge_shift[e]))
            for e in range(int(graph.edge_offset[task]), int(graph.edge_offset[task + 1]))
        ]
        for task in range(graph.n_tasks)
    ]
    needs = {(s, t): 0 for s in range(slices) for t in range(graph.n_tasks)}
    for task in range(graph.n_tasks):
        for target, _ in edges[task]:
            for part in range(slices):
                needs[part, target] += 1
    ready = dict.fromkeys(needs, Fraction(0))
    waiting: dict[int, list[tuple[int, int]]] = {}
    free: dict[int, Fraction] = {}
    start: dict[tuple[int, int], Fraction] = {}
    moments = [Fraction(0)]
    coming = {item for item, count in needs.items() if not count}

    def run(item: tuple[int, int], now: Fraction) -> None:
        start[item] = now
        finish = now + int(timed.duration[item[1]])
        resource = int(graph.resource[item[1]])
        if resource >= 0:
            free[resource] = finish
        heapq.heappush(moments, finish)
        for target, shift in edges[item[1]]:
            other = item[0], target
            ready[other] = max(ready[other], finish + shift)
            needs[other] -= 1
            if not needs[other]:
                coming.add(other)
                heapq.heappush(moments, ready[other])

    def gather(now: Fraction) -> None:
        while arrived := sorted(item for item in coming if ready[item] <= now):
            coming.difference_update(arrived)
            for item in arrived:
                resource = int(graph.resource[item[1]])
                if resource < 0:
                    run(item, ready[item])
                else:
                    waiting.setdefault(resource, []).append(item)

    while moments:
        now = heapq.heappop(moments)
        gather(now)
        while idle := [r for r, line in waiting.items() if line and free.get(r, Fraction(0)) <= now]:
            line = waiting[min(idle)]
            by_arrival = sharing is Sharing.FIFO
            line.sort(key=lambda item: (ready[item] if by_arrival else 0, item))
            run(line.pop(0), now)
            gather(now)
    return start
