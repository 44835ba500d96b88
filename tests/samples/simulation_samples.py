"""Small fabrics and programs whose course can be told by hand, and a slow simulator to compare with."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.program.program import Buffer, Operation, OperationKind, Program, program_from_operations
from treadle.schedules.collective import CollectiveKind
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
