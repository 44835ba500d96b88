"""Passes on the way to MSCCL XML: the interpreter finds the meaning unchanged, and a maximum falls."""

from __future__ import annotations

import re

import pytest

from samples.exchange_samples import alltoall, over_shortest_paths
from samples.program_cases import random_case
from treadle import planning
from treadle.errors import InfeasibleError, ScheduleError
from treadle.formats.msccl.block_assignment import (
    Limits,
    MscclBlock,
    pair_blocks,
    split_chunks,
)
from treadle.formats.msccl.consolidation import consolidate_messages
from treadle.formats.msccl.interpreter import interpret_msccl_xml
from treadle.formats.msccl.writer import LIMITS, Profile, emit_msccl_xml
from treadle.formats.verdict import Verdict
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


def both(program: Program) -> tuple[Verdict, Verdict]:
    """What the interpreter says of a program as it is and consolidated, streams without slots."""
    root = max(0, program.root)
    found = [
        interpret_msccl_xml(emit_msccl_xml(program, consolidate=way), root=root, fifo_depth=0)
        for way in (False, True)
    ]
    assert found[0].violations == found[1].violations == ()
    return found[0], found[1]


def n_messages(found: Verdict) -> int:
    return dict(found.counts)["message"]


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
    assert (n_messages(scattered), n_messages(gathered)) == (before, after)


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_consolidated_texts_do_the_same(kind: CollectiveKind) -> None:
    fewer = 0
    for seed in range(16):
        program = lower(*random_case(seed, kind), channels=1 + seed % 2, in_place=seed % 4 < 2, merge=False)
        try:
            scattered, gathered = both(program)
        except ScheduleError:
            continue  # unequal shards
        assert n_messages(gathered) <= n_messages(scattered)
        fewer += n_messages(scattered) - n_messages(gathered)
    # sums stay where the rank's own terms are
    assert bool(fewer) == (kind not in (CollectiveKind.REDUCE_SCATTER, CollectiveKind.REDUCE))


def test_consolidated_texts_keep_to_the_limit_of_a_step() -> None:
    wide = emit_msccl_xml(exchange(), consolidate=True)
    assert max(int(count) for count in re.findall(r'cnt="(\d+)"', wide)) > 1
    narrow = Limits(steps=64, thread_blocks=64, channels=32, chunks=3)
    pieces = consolidate_messages(split_chunks(exchange(), narrow), narrow)
    assert max(piece.count for piece in pieces.rows) == 3


def test_nothing_to_gather_leaves_the_pieces_alone() -> None:
    program = lower(*random_case(1, CollectiveKind.REDUCE))
    pieces = split_chunks(program, LIMITS[Profile.AZURE])
    assert consolidate_messages(pieces, LIMITS[Profile.AZURE]) is pieces


# --- long streams split, thread blocks balanced


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


def test_blocks_that_would_be_too_long_are_not_paired() -> None:
    limits = Limits(steps=3, thread_blocks=1, channels=1)
    pieces = split_chunks(long_stream(4), LIMITS[Profile.AZURE])
    blocks = [MscclBlock(0, 1, -1, [0, 1]), MscclBlock(0, -1, 1, [2, 3])]
    assert len(pair_blocks(pieces, blocks, limits)) == 2


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
