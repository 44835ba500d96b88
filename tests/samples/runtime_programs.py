"""Programs for the runtimes' tests: random spanning trees of a complete graph, lowered."""

import random

from treadle.program.program import Buffer, Operation, OperationKind, Program, program_from_operations
from treadle.program.trees.forest_program import lower
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule, TreeSpec, forest_from_trees
from treadle.topologies.topology import Topology, TopologyBuilder


def complete_graph(n: int) -> Topology:
    builder = TopologyBuilder(f"complete({n})")
    names = [builder.compute(f"rank{rank}") for rank in range(n)]
    for tail in names:
        for head in names:
            if tail != head:
                builder.link(tail, head, 10**9)
    return builder.build()


def random_forest(
    topology: Topology, direction: Direction, multiplicities: list[list[int]], generator: random.Random
) -> Forest:
    n = len(multiplicities)
    link = {(int(t), int(h)): e for e, (t, h) in enumerate(zip(topology.tails, topology.heads, strict=True))}
    trees = []
    for root, counts in enumerate(multiplicities):
        for multiplicity in counts:
            others = [rank for rank in range(n) if rank != root]
            generator.shuffle(others)
            parent, joined = [-1] * n, [root]
            for rank in others:
                parent[rank] = generator.choice(joined)
                joined.append(rank)
            paths = {}
            for rank in others:
                ends = (parent[rank], rank) if direction is Direction.BROADCAST else (rank, parent[rank])
                paths[rank] = [((link[ends],), multiplicity)]
            trees.append(TreeSpec(root, multiplicity, parent, paths))
    return forest_from_trees(direction, n, trees)


def random_schedule(
    topology: Topology, collective: Collective, *, seed: int, trees_per_root: int
) -> ForestSchedule:
    generator = random.Random(seed)
    counts = [[weight] * trees_per_root if weight else [] for weight in collective.shard_weights]
    reduce = broadcast = None
    if collective.kind.reduces:
        reduce = random_forest(topology, Direction.REDUCE, counts, generator)
    if collective.kind.broadcasts:
        broadcast = random_forest(topology, Direction.BROADCAST, counts, generator)
    return ForestSchedule(collective.kind, reduce=reduce, broadcast=broadcast)


def random_program(
    kind: CollectiveKind,
    n: int,
    *,
    seed: int,
    trees_per_root: int = 1,
    weights: tuple[int, ...] | None = None,
    in_place: bool = False,
    channels: int = 1,
) -> Program:
    topology = complete_graph(n)
    root = (seed % n) if kind.is_rooted else None
    collective = on_all_ranks(topology, kind, root=root, weights=weights)
    schedule = random_schedule(topology, collective, seed=seed, trees_per_root=trees_per_root)
    return lower(topology, collective, schedule, in_place=in_place, channels=channels)


def exchange(n: int, *, in_place: bool) -> Program:
    """An allreduce of one chunk by recursive doubling, N a power of two.

    In place, each rank overwrites what it has just sent, waiting for its own send only: right only
    where sends are buffered.
    """
    ranks: list[list[Operation]] = [[] for _ in range(n)]
    for me, operations in enumerate(ranks):
        held, waits, distance = Buffer.INPUT, (), 1
        while distance < n:
            peer, place = me ^ distance, len(operations)
            operations.append(
                Operation(OperationKind.SEND, 0, 1, peer=peer, source=held, target=held, waits=waits)
            )
            operations.append(
                Operation(OperationKind.RECEIVE_REDUCE, 0, 1, peer=peer, source=held, waits=(place, *waits))
            )
            held, waits, distance = Buffer.OUTPUT, (place + 1,), distance * 2
    return program_from_operations(
        CollectiveKind.ALLREDUCE, ranks, n_chunks=1, shard_offset=[0] + [1] * n, in_place=in_place
    )


def overwritten(n: int) -> Program:
    """A broadcast whose root stores rubbish over what it has sent, long before rank 1 looks at it."""
    send, receive, copy = OperationKind.SEND, OperationKind.RECEIVE, OperationKind.COPY
    scratch, output = Buffer.SCRATCH, Buffer.OUTPUT
    root = [
        Operation(copy, 0, 256),
        Operation(copy, 0, 2, target=scratch),
        Operation(send, 0, 1, peer=1, source=scratch, target=scratch, waits=(1,)),
        Operation(send, 1, 255, peer=1),
        Operation(copy, 2, 1, target=scratch),
        Operation(copy, 2, 1, target=scratch, waits=(4,)),
        Operation(copy, 2, 1, target=scratch, waits=(5,)),
        Operation(receive, 0, 1, peer=1, source=scratch, target=scratch, waits=(2, 6)),
    ]
    other = [
        Operation(send, 0, 1, peer=0, source=scratch, target=scratch),
        Operation(copy, 1, 255, source=scratch, target=output),
        Operation(receive, 0, 1, peer=0, waits=(1,)),
        Operation(receive, 1, 255, peer=0, waits=(1,)),
    ]
    root += [Operation(send, 0, 256, peer=peer) for peer in range(2, n)]
    rest = [[Operation(receive, 0, 256, peer=0)]] * (n - 2)
    return program_from_operations(
        CollectiveKind.BROADCAST, [root, other, *rest], n_chunks=256, shard_offset=[0] + [256] * n, root=0
    )
