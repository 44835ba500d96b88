"""The tests' own check of programs finds what is planted in sound ones."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import networkx
import numpy as np

from reference.program_check import check_program
from samples.exchange_samples import alltoall, over_shortest_paths
from samples.program_cases import random_case
from treadle.program.program import Operation, OperationKind, Program, program_from_operations
from treadle.program.steps.exchange_lowering import lower_exchange
from treadle.program.trees.forest_program import lower
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind
from treadle.topologies.catalogue.graphs import torus


def programs(seeds: int) -> list[Program]:
    found = [
        lower(*random_case(seed, kind), channels=1 + seed % 2, in_place=seed % 4 < 2)
        for kind in SPANNING_KINDS
        for seed in range(seeds)
    ]
    fabric = torus(3, 2)
    collective = alltoall(fabric)
    return [*found, lower_exchange(fabric, collective, over_shortest_paths(fabric, collective))]


def has_cycle(counts: tuple[int, int], ranks: list[list[Operation]]) -> bool:
    """Whether waits, messages and the order of each stream go round in a circle."""
    graph = networkx.DiGraph()
    for rank, operations in enumerate(ranks):
        graph.add_edges_from(
            ((rank, wait), (rank, number))
            for number, operation in enumerate(operations)
            for wait in operation.waits
        )
    for sender in range(2):
        ends = [
            [(rank, i) for i, operation in enumerate(ranks[rank]) if operation.kind == kind]
            for rank, kind in ((sender, OperationKind.SEND), (1 - sender, OperationKind.RECEIVE))
        ]
        assert [len(end) for end in ends] == [counts[sender]] * 2
        graph.add_edges_from(zip(*ends, strict=True))
        graph.add_edges_from(pair for end in ends for pair in pairwise(end))
    return not networkx.is_directed_acyclic_graph(graph)


def test_the_check_finds_deadlocks() -> None:
    """Two ranks that send and receive in random orders, with random waits."""
    rng, seen = random.Random(5), Counter[bool]()
    for _ in range(60):
        counts = rng.randint(1, 3), rng.randint(1, 3)
        ranks = []
        for rank in range(2):
            kinds = [OperationKind.SEND] * counts[rank] + [OperationKind.RECEIVE] * counts[1 - rank]
            rng.shuffle(kinds)
            waits = [tuple(j for j in range(i) if rng.random() < 0.6) for i in range(len(kinds))]
            ranks.append(
                [
                    Operation(kind, 0, 1, peer=1 - rank, waits=wait)
                    for kind, wait in zip(kinds, waits, strict=True)
                ]
            )
        program = program_from_operations(
            CollectiveKind.ALLREDUCE, ranks, n_chunks=1, shard_offset=[0, 1, 1], in_place=True
        )
        found = any("deadlock" in violation for violation in check_program(program))
        assert found == has_cycle(counts, ranks)
        seen[found] += 1
    assert min(seen[False], seen[True]) > 5, seen


def spoilt(program: Program, rng: random.Random) -> Program:
    """One column changed at one place, all waits of an operation dropped, or those on all before it added."""
    at = rng.randrange(program.n_operations)
    name = rng.choice(["first", "source", "target", "channel", "kind", "waits", "more"])
    if name == "waits":
        low, past = program.wait_offset[at : at + 2].tolist()
        offset = program.wait_offset.copy()
        offset[at + 1 :] -= past - low
        return replace(program, waits=np.delete(program.waits, slice(low, past)), wait_offset=offset)
    if name == "more":
        start = int(program.operation_offset[program.operation_rank[at]])
        offset = program.wait_offset.copy()
        offset[at + 1 :] += at - start
        waits = np.insert(program.waits, program.wait_offset[at], np.arange(start, at))
        return replace(program, waits=waits, wait_offset=offset)
    if name == "kind":
        kind = program.operation_kind.copy()
        if kind[at] in (1, 2):
            kind[at] = 3 - kind[at]
        return replace(program, operation_kind=kind)
    column = getattr(program, name).copy()
    room = program.n_addresses - int(program.count[at]) + 1
    column[at] = rng.randrange({"first": room, "channel": 2}.get(name, 3))
    return replace(program, **{name: column})


def test_the_check_finds_what_is_spoilt() -> None:
    rng, seen = random.Random(64), Counter[str]()
    for program in programs(4):
        assert check_program(program) == ()
        for _ in range(8):
            found = check_program(spoilt(spoilt(program, rng), rng))
            for word in ("race", "not there yet", "receives", "uses", "writes INPUT"):
                seen[word] += any(word in violation for violation in found)
    assert min(seen.values()) > 0, seen
