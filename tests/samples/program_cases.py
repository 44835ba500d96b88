"""Random forest schedules on a clique or a star, and a reference interpreter of programs."""

from __future__ import annotations

import random
from collections import Counter, defaultdict, deque

from treadle.program.program import Buffer, OperationKind, Program
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule, TreeSpec, forest_from_trees
from treadle.topologies.topology import Topology, TopologyBuilder


def fabric(n: int, *, star: bool) -> Topology:
    """Two parallel links each way between all ranks, or between each rank and a switch."""
    builder = TopologyBuilder("star" if star else "clique")
    names = [builder.compute(f"gpu{i}") for i in range(n)]
    if star:
        builder.switch("sw")
    for i in range(n):
        for other in ["sw"] if star else names[:i]:
            for _ in range(2):
                builder.duplex(names[i], other, 10**9)
    return builder.build()


def random_paths(topology: Topology, rng: random.Random, tail: int, head: int) -> tuple[int, ...]:
    def link(one: int, other: int) -> int:
        ends = zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)
        return rng.choice([number for number, pair in enumerate(ends) if pair == (one, other)])

    hub = topology.n_nodes - 1
    return (link(tail, head),) if not topology.switches.size else (link(tail, hub), link(hub, head))


def random_tree(
    topology: Topology, rng: random.Random, direction: Direction, root: int, multiplicity: int
) -> TreeSpec:
    n = len(topology.compute_nodes)
    parent, joined = [-1] * n, [root]
    for rank in rng.sample([v for v in range(n) if v != root], n - 1):
        parent[rank] = rng.choice(joined)
        joined.append(rank)
    paths = {}
    for rank in joined[1:]:
        ends = (parent[rank], rank) if direction is Direction.BROADCAST else (rank, parent[rank])
        cut = rng.randint(1, multiplicity)
        units = [cut] if cut == multiplicity else [cut, multiplicity - cut]
        paths[rank] = [(random_paths(topology, rng, *ends), count) for count in units]
    return TreeSpec(root=root, multiplicity=multiplicity, parent=parent, paths=paths)


def random_forest(topology: Topology, rng: random.Random, direction: Direction, units: list[int]) -> Forest:
    trees = []
    for root, total in enumerate(units):
        while total:
            multiplicity = rng.randint(1, total)
            trees.append(random_tree(topology, rng, direction, root, multiplicity))
            total -= multiplicity
    return forest_from_trees(direction, len(units), trees)


def random_case(seed: int, kind: CollectiveKind) -> tuple[Topology, Collective, ForestSchedule]:
    rng = random.Random(f"{seed} {kind}")
    n = rng.randint(2, 5)
    topology = fabric(n, star=rng.random() < 0.5)
    root = rng.randrange(n) if kind.is_rooted else None
    weights = None
    if kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER) and rng.random() < 0.5:
        weights = (1, *(rng.randint(0, 3) for _ in range(n - 1)))
    collective = on_all_ranks(topology, kind, root=root, weights=weights)
    scale = rng.randint(1, 4)
    units = [scale * weight for weight in collective.shard_weights]
    schedule = ForestSchedule(
        kind,
        reduce=random_forest(topology, rng, Direction.REDUCE, units) if kind.reduces else None,
        broadcast=random_forest(topology, rng, Direction.BROADCAST, units) if kind.broadcasts else None,
    )
    return topology, collective, schedule


def reference_errors(program: Program) -> list[str]:
    """Run every rank's list in order on counters of (rank, chunk); what OUTPUT lacks or has too often."""
    memory = [_input(program, rank) for rank in range(program.n_ranks)]
    wires: dict[tuple[int, int, int], deque[list[Counter]]] = defaultdict(deque)
    places = [program.operations(rank).start for rank in range(program.n_ranks)]
    moved = True
    while moved:
        moved = False
        for rank in range(program.n_ranks):
            while places[rank] < program.operations(rank).stop and _step(
                program, rank, places[rank], memory[rank], wires
            ):
                places[rank] += 1
                moved = True
    errors = []
    for rank in range(program.n_ranks):
        if places[rank] < program.operations(rank).stop:
            errors.append(f"rank {rank} is stuck")
        errors.extend(
            f"rank {rank} chunk {chunk}"
            for span in program.ranges(rank, Buffer.OUTPUT)
            for chunk in range(*span)
            if memory[rank][_place(program, Buffer.OUTPUT, chunk)] != _wanted(program, chunk)
        )
    return errors


def _place(program: Program, buffer: int, chunk: int) -> tuple[int, int]:
    return (Buffer.OUTPUT if program.in_place and buffer == Buffer.INPUT else buffer, chunk)


def _input(program: Program, rank: int) -> dict:
    memory: dict = defaultdict(Counter)
    for chunk in (c for span in program.ranges(rank, Buffer.INPUT) for c in range(*span)):
        memory[_place(program, Buffer.INPUT, chunk)] = Counter({(rank, chunk): 1})
    return memory


def _wanted(program: Program, chunk: int) -> Counter:
    if program.kind.reduces:
        return Counter({(rank, chunk): 1 for rank in range(program.n_ranks)})
    owner = next(v for v in range(program.n_ranks) if program.shard(v)[0] <= chunk < program.shard(v)[1])
    return Counter({(owner, chunk): 1})


def _step(program: Program, rank: int, number: int, memory: dict, wires: dict) -> bool:
    kind, peer = program.operation_kind[number], int(program.peer[number])
    first, channel = int(program.first[number]), int(program.channel[number])
    chunks = range(first, first + int(program.count[number]))
    local = [memory[_place(program, int(program.source[number]), chunk)] for chunk in chunks]
    if kind == OperationKind.SEND:
        wires[rank, peer, channel].append(local)
        return True
    values = local
    if kind != OperationKind.COPY:
        if not wires[peer, rank, channel]:
            return False
        values = wires[peer, rank, channel].popleft()
        if kind == OperationKind.RECEIVE_REDUCE:
            values = [one + other for one, other in zip(local, values, strict=True)]
    for chunk, value in zip(chunks, values, strict=True):
        memory[_place(program, int(program.target[number]), chunk)] = value
    return True
