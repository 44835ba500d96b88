"""Passes on the way to MSCCL XML: the interpreter finds the meaning unchanged, and a maximum falls."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest

from samples.exchange_samples import alltoall, over_shortest_paths
from samples.program_cases import random_case
from treadle import planning
from treadle.errors import InfeasibleError, ScheduleError
from treadle.formats.msccl.block_assignment import (
    Limits,
    MscclBlock,
    Subchunks,
    assign_channels,
    block_weight,
    form_blocks,
    pair_blocks,
    split_chunks,
    split_evenly,
)
from treadle.formats.msccl.consolidation import consolidate_messages
from treadle.formats.msccl.interpreter import Interpretation, interpret_msccl_xml
from treadle.formats.msccl.writer import LIMITS, Profile, emit_msccl_xml
from treadle.program.any_schedule import lower as lower_any
from treadle.program.program import Operation, OperationKind, Program, program_from_operations
from treadle.program.steps.exchange_lowering import lower_exchange
from treadle.program.trees.forest_program import lower
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind
from treadle.topologies import TopologyBuilder
from treadle.topologies.catalogue.graphs import torus


def exchange(*, channels: int = 1) -> Program:
    topology = torus(3, 3)
    collective = alltoall(topology)
    return lower_exchange(topology, collective, over_shortest_paths(topology, collective), channels=channels)


def breadth_first(fabric: str, collective: str) -> Program:
    plan = planning.solve(fabric, collective, algorithm="bfb").plan
    return lower_any(plan.topology, plan.collective, plan.entries[-1].schedule, in_place=True)


def both(program: Program) -> tuple[Interpretation, Interpretation]:
    """What the interpreter says of a program as it is and consolidated, streams without slots."""
    root = max(0, program.root)
    found = [
        interpret_msccl_xml(emit_msccl_xml(program, consolidate=way), root=root, fifo_depth=0)
        for way in (False, True)
    ]
    assert found[0].violations == found[1].violations == ()
    return found[0], found[1]


@pytest.mark.parametrize(
    ("program", "before", "after"),
    [
        pytest.param(exchange(), 180, 36 * 2, id="alltoall"),
        pytest.param(breadth_first("torus(4,4)", "allgather"), 335, 64 * 4, id="allgather"),
        pytest.param(breadth_first("torus(4,4)", "allreduce"), 670, 335 + 64 * 4, id="allreduce"),
    ],
)
def test_scattered_messages_become_one(program: Program, before: int, after: int) -> None:
    """One a step on each of the links: as many links as the fabric has, times steps; sums are left alone."""
    scattered, gathered = both(program)
    assert (scattered.n_messages, gathered.n_messages) == (before, after)


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_consolidated_texts_do_the_same(kind: CollectiveKind) -> None:
    fewer = 0
    for seed in range(16):
        program = lower(*random_case(seed, kind), channels=1 + seed % 2, in_place=seed % 4 < 2, merge=False)
        try:
            scattered, gathered = both(program)
        except ScheduleError:
            continue  # unequal shards
        assert gathered.n_messages <= scattered.n_messages
        fewer += scattered.n_messages - gathered.n_messages
    # sums stay where the rank's own terms are
    assert bool(fewer) == (kind not in (CollectiveKind.REDUCE_SCATTER, CollectiveKind.REDUCE))


def test_consolidated_texts_keep_to_the_limit_of_a_step() -> None:
    wide = emit_msccl_xml(exchange(), consolidate=True)
    assert max(int(count) for count in re.findall(r'cnt="(\d+)"', wide)) > 1
    narrow = Limits(steps=64, thread_blocks=64, channels=32, chunks=3)
    pieces = consolidate_messages(split_chunks(exchange(), narrow), narrow)
    assert max(pieces.count) == 3


def test_dropping_a_wait_of_the_stage_is_a_race() -> None:
    text = emit_msccl_xml(exchange(), consolidate=True)
    assert interpret_msccl_xml(text).violations == ()
    lines = text.split("\n")
    staged = [
        at for at, line in enumerate(lines) if 'type="s" srcbuf="s"' in line and 'depid="-1"' not in line
    ]
    assert staged
    for at in random.Random(2).sample(staged, 10):
        bare = re.sub(r'depid="\d+" deps="\d+"', 'depid="-1" deps="-1"', lines[at])
        mutant = "\n".join([*lines[:at], bare, *lines[at + 1 :]])
        assert any("race" in violation for violation in interpret_msccl_xml(mutant).violations)


def test_nothing_to_gather_leaves_the_pieces_alone() -> None:
    program = lower(*random_case(1, CollectiveKind.REDUCE))
    pieces = split_chunks(program, LIMITS[Profile.AZURE])
    assert consolidate_messages(pieces, LIMITS[Profile.AZURE]) is pieces


# --- long streams split, thread blocks balanced


def greedy(weights: list[int], limit: int) -> list[int]:
    """Loads of runs that are filled one after another."""
    loads = [0]
    for weight in weights:
        if loads[-1] and loads[-1] + weight > limit:
            loads.append(0)
        loads[-1] += weight
    return loads


def test_runs_are_few_and_even() -> None:
    rng, lighter = random.Random(4), 0
    for _ in range(300):
        weights = [rng.randint(1, 9) for _ in range(rng.randint(0, 40))]
        limit = rng.randint(9, 30)
        lengths = split_evenly(weights, limit)
        assert sum(lengths) == len(weights)
        ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]
        loads = [sum(weights[end - length : end]) for end, length in zip(ends, lengths, strict=True)]
        before = greedy(weights, limit)
        assert len(loads) == (len(before) if weights else 0)
        assert max(loads, default=0) <= max(before) <= limit
        lighter += max(loads, default=0) < max(before)
        assert max(loads, default=0) <= best_maximum(weights, len(loads))
    assert lighter > 50


def best_maximum(weights: list[int], parts: int) -> int:
    """Of all ways to cut into so many runs, by dynamic programming."""
    best = [[0] + [10**9] * len(weights)]
    for _ in range(parts):
        row = [
            min(
                (max(best[-1][i], sum(weights[i:end])) for i in range(end)),
                default=0 if not end else 10**9,
            )
            for end in range(len(weights) + 1)
        ]
        best.append(row)
    return min(row[-1] for row in best) if weights else 0


def long_stream(messages: int) -> Program:
    sends = [Operation(OperationKind.SEND, i, 1, peer=1) for i in range(messages)]
    receives = [Operation(OperationKind.RECEIVE, i, 1, peer=0) for i in range(messages)]
    return program_from_operations(
        CollectiveKind.BROADCAST,
        [sends, receives],
        n_chunks=messages,
        shard_offset=[0, messages, messages],
        root=0,
        in_place=True,
    )


def loads(pieces: Subchunks, rank: int, limits: Limits) -> list[int]:
    blocks = form_blocks(pieces, rank, pieces.program.n_ranks, limits)
    return sorted(block_weight(pieces, block) for block in blocks)


def test_long_streams_are_split_evenly() -> None:
    """65 messages are one more than a thread block holds: 33 and 32 rather than 64 and 1."""
    limits = LIMITS[Profile.AZURE]
    pieces = split_chunks(long_stream(65), limits)
    assign_channels(pieces, limits)
    assert loads(pieces, 0, limits) == loads(pieces, 1, limits) == [32, 33]
    assert interpret_msccl_xml(emit_msccl_xml(long_stream(65))).violations == ()


def test_copies_are_split_by_the_steps_that_they_take() -> None:
    """A copy with three waits takes three steps; 40 of them do not fit into a thread block of 64."""
    limits = LIMITS[Profile.AZURE]
    receives = [Operation(OperationKind.RECEIVE, i, 1, peer=1 + i % 3) for i in range(120)]
    copies = [
        Operation(OperationKind.COPY, 3 * i, 3, target=1, source=1, waits=(3 * i, 3 * i + 1, 3 * i + 2))
        for i in range(40)
    ]
    ranks = [[*receives, *copies]] + [
        [Operation(OperationKind.SEND, i, 1, peer=0) for i in range(v, 120, 3)] for v in range(3)
    ]
    program = program_from_operations(
        CollectiveKind.ALLREDUCE, ranks, n_chunks=120, shard_offset=[0, 120, 120, 120, 120], in_place=True
    )
    pieces = split_chunks(program, limits)
    assign_channels(pieces, limits)
    found = [block for block in form_blocks(pieces, 0, 4, limits) if max(block.send, block.receive) < 0]
    assert sorted(block_weight(pieces, block) for block in found) == [60, 60]


def test_blocks_are_paired_no_more_than_they_must_be_and_evenly() -> None:
    """Four sends and four receives of 1 to 4 steps in six blocks: the two lightest pairs share."""
    sends = [Operation(OperationKind.SEND, 0, 1, peer=1 + v) for v in range(4) for _ in range(v + 1)]
    receives = [Operation(OperationKind.RECEIVE, 0, 1, peer=1 + v) for v in range(4) for _ in range(v + 1)]
    others = [
        [Operation(OperationKind.SEND, 0, 1, peer=0)] * (v + 1)
        + [Operation(OperationKind.RECEIVE, 0, 1, peer=0)] * (v + 1)
        for v in range(4)
    ]
    program = program_from_operations(
        CollectiveKind.ALLREDUCE,
        [[*sends, *receives], *others],
        n_chunks=1,
        shard_offset=[0, 1, 1, 1, 1, 1],
        in_place=True,
    )
    for most, expected in ((8, [1, 1, 2, 2, 3, 3, 4, 4]), (6, [3, 3, 3, 3, 4, 4]), (4, [5, 5, 5, 5])):
        limits = Limits(steps=64, thread_blocks=most, channels=4)
        pieces = split_chunks(program, limits)
        assign_channels(pieces, limits)
        blocks = form_blocks(pieces, 0, 5, Limits(steps=64, thread_blocks=8, channels=4))
        paired = pair_blocks(pieces, blocks, limits)
        assert sorted(block_weight(pieces, block) for block in paired) == expected
        assert sorted(piece for block in paired for piece in block.pieces) == list(pieces.rank_pieces[0])


def test_blocks_that_would_be_too_long_are_not_paired() -> None:
    limits = Limits(steps=3, thread_blocks=1, channels=1)
    pieces = split_chunks(long_stream(4), LIMITS[Profile.AZURE])
    blocks = [MscclBlock(0, 1, -1, [0, 1]), MscclBlock(0, -1, 1, [2, 3])]
    assert len(pair_blocks(pieces, blocks, limits)) == 2


def test_parts_wait_for_the_parts_that_they_share_chunks_with() -> None:
    """By the definition, part by part."""
    n_partial = 0
    for seed in range(6):
        program = lower(*random_case(seed, CollectiveKind.ALLREDUCE), merge=True)
        finer = replace(
            program,
            n_chunks=3 * program.n_chunks,
            shard_offset=3 * program.shard_offset,
            first=3 * program.first,
            count=3 * program.count,
        )
        pieces = split_chunks(finer, Limits(steps=64, thread_blocks=64, channels=64, chunks=2))
        places = [range(low, low + count) for low, count in zip(pieces.first, pieces.count, strict=True)]
        for piece, operation in enumerate(pieces.operation):
            wanted = []
            for wait in finer.waits_of(operation).tolist():
                own = [other for other, number in enumerate(pieces.operation) if number == wait]
                sharing = [other for other in own if set(places[other]) & set(places[piece])]
                n_partial += 0 < len(sharing) < len(own)
                wanted += sharing or own
            assert pieces.waits[piece] == wanted
    assert n_partial > 100


@pytest.mark.parametrize("target", ["msccl-xml", "mscclpp-json"])
def test_no_text_is_written_that_readers_refuse(target: str) -> None:
    fabric = TopologyBuilder("far apart")
    ranks = [fabric.compute(f"gpu{rank}") for rank in range(3)]
    for one, other, width in ((0, 1, 7_000_000), (1, 2, 1), (0, 2, 7_000_001)):
        fabric.duplex(ranks[one], ranks[other], width)
    plan = planning.solve(fabric.build(), "allgather", exact=True).plan
    with pytest.raises(
        InfeasibleError, match=r"chunks in all buffers together, expected at most 4000000; solve"
    ):
        planning.lower(plan, to=target)
