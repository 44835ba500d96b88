"""Passes over programs: the result is checked, executed by the reference and compared in size."""

from __future__ import annotations

import numpy as np
import pytest

from reference.program_check import check_program
from samples.exchange_samples import alltoall, over_shortest_paths
from samples.program_cases import random_case, reference_errors
from treadle.errors import ScheduleError
from treadle.formats.msccl.interpreter import interpret_msccl_xml
from treadle.formats.msccl.writer import emit_msccl_xml
from treadle.formats.mscclpp.block_programs import chunk_groups
from treadle.planning import program_of, solve
from treadle.program.passes import (
    MAX_INSTANCES,
    merge_levels,
    recut,
    replicate,
    split_copies,
)
from treadle.program.program import Buffer, Operation, OperationKind, Program, program_from_operations
from treadle.program.steps.exchange_lowering import lower_exchange
from treadle.program.trees.forest_program import lower
from treadle.runtime.measured_sizes import measure
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind
from treadle.topologies.catalogue.graphs import torus


def sends(program: Program) -> int:
    return int((program.operation_kind == OperationKind.SEND).sum())


def exchange(*, merge: bool) -> Program:
    topology = torus(3, 3)
    collective = alltoall(topology)
    return lower_exchange(topology, collective, over_shortest_paths(topology, collective), merge=merge)


@pytest.mark.parametrize("instances", [1, 2, 3])
@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_instances_do_the_same_side_by_side(kind: CollectiveKind, instances: int) -> None:
    for seed in range(5):
        topology, collective, schedule = random_case(seed, kind)
        program = lower(topology, collective, schedule, in_place=bool(seed % 2), channels=1 + seed % 3)
        wide = replicate(program, instances)
        assert check_program(wide) == ()
        assert reference_errors(wide) == []
        assert wide.n_chunks == instances * program.n_chunks
        assert wide.shard_offset.tolist() == [instances * bound for bound in program.shard_offset.tolist()]
        assert int(wide.count.sum()) == instances * int(program.count.sum())
        # the same bytes over the same paths
        for path in range(program.n_paths):
            over = int(program.count[program.path == path].sum())
            assert int(wide.count[wide.path == path].sum()) == instances * over


def test_instances_keep_apart() -> None:
    program = lower(*random_case(3, CollectiveKind.ALLREDUCE))
    wide = replicate(program, 4)
    instance = wide.channel % 4
    waiting = np.repeat(np.arange(wide.n_operations), np.diff(wide.wait_offset))
    assert np.array_equal(instance[waiting], instance[wide.waits])
    touched = [set() for _ in range(4)]
    for number in range(wide.n_operations):
        first = int(wide.first[number])
        touched[instance[number]].update(range(first, first + int(wide.count[number])))
    assert sum(map(len, touched)) == len(set().union(*touched))


def test_instances_of_an_alltoall() -> None:
    program = replicate(exchange(merge=True), 2)
    assert check_program(program) == ()
    assert interpret_msccl_xml(emit_msccl_xml(program)).violations == ()


@pytest.mark.parametrize("instances", [0, -1, MAX_INSTANCES + 1])
def test_numbers_of_instances_that_cannot_be(instances: int) -> None:
    with pytest.raises(ScheduleError, match=f"found {instances}"):
        replicate(exchange(merge=True), instances)
    least = lower(*random_case(3, CollectiveKind.BROADCAST))
    assert replicate(least, MAX_INSTANCES).n_chunks == MAX_INSTANCES * least.n_chunks


def legal(program: Program) -> list[str]:
    """Complaints about a program: checked, and run rank by rank in the order of its lists."""
    return [*map(str, check_program(program)), *reference_errors(program)]


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_messages_of_a_level_are_joined_across_channels(kind: CollectiveKind) -> None:
    fewer = 0
    for seed in range(8):
        case = random_case(seed, kind)
        program = lower(*case, in_place=bool(seed % 2), channels=3, merge=False)
        joined = merge_levels(program)
        assert legal(joined) == []
        assert int(joined.count.sum()) == int(program.count.sum())
        assert merge_levels(joined) is joined
        fewer += sends(program) - sends(joined)
    assert (fewer > 0) == kind.broadcasts


def test_messages_of_a_level_are_joined_across_steps() -> None:
    program = program_of(solve("de_bruijn(2, 3)", "alltoall", algorithm="pipelined").plan, 0)
    joined = merge_levels(program)
    assert 3 * sends(joined) < 2 * sends(program)
    assert check_program(joined) == ()
    assert [row.wrong for row in measure(joined, [0, 4, 1000, 4096], iterations=1, warmup=0)] == [0] * 4
    between = [
        np.bincount(
            joined_or_not.operation_rank[is_send] * 8 + joined_or_not.peer[is_send],
            joined_or_not.count[is_send],
        ).tolist()
        for joined_or_not in (program, joined)
        for is_send in [joined_or_not.operation_kind == OperationKind.SEND]
    ]
    assert between[0] == between[1]


def test_what_comes_together_waits_for_all_its_parts() -> None:
    """Each of two sends waits for a copy, and between them a third copy waits for the first send."""
    send, receive, copy = OperationKind.SEND, OperationKind.RECEIVE, OperationKind.COPY
    own = [
        Operation(copy, 0, 1),
        Operation(send, 0, 1, peer=1, channel=1, waits=(0,)),
        Operation(copy, 2, 1, waits=(1,)),
        Operation(copy, 1, 1),
        Operation(send, 1, 1, peer=1, waits=(3,)),
    ]
    other = [Operation(receive, 1, 1, peer=0), Operation(receive, 0, 1, peer=0, channel=1)]
    program = program_from_operations(
        CollectiveKind.BROADCAST, [own, other], n_chunks=3, shard_offset=[0, 3, 3], root=0
    )
    joined = merge_levels(program)
    assert joined.operation_kind.tolist() == [copy, copy, send, copy, receive]
    assert joined.first.tolist() == [0, 1, 0, 2, 0]
    assert joined.count.tolist() == [1, 1, 2, 1, 2]
    assert [joined.waits_of(operation).tolist() for operation in range(5)] == [[], [], [0, 1], [2], []]


def apart(program: Program) -> int:
    """Waits for operations that touch none of the same chunks."""
    found = 0
    for number in range(program.n_operations):
        low, past = int(program.first[number]), int(program.first[number] + program.count[number])
        for other in program.waits_of(number).tolist():
            found += not (low < program.first[other] + program.count[other] and program.first[other] < past)
    return found


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_copies_are_cut_like_messages(kind: CollectiveKind) -> None:
    """What ties chunks together afterwards are messages alone."""
    more = 0
    for seed in range(8):
        topology, collective, schedule = random_case(seed, kind)
        program = lower(topology, collective, schedule, in_place=bool(seed % 2), merge=False)
        cut = split_copies(program)
        assert check_program(cut) == ()
        assert reference_errors(cut) == []
        assert sends(cut) == sends(program)
        assert int(cut.count.sum()) == int(program.count.sum())
        assert split_copies(cut) == cut
        assert apart(cut) == apart(program) == 0
        kinds = cut.operation_kind
        for group in chunk_groups(cut):
            assert len(group) == 1 or any(kinds[number] != OperationKind.COPY for number in group)
            for number in group:
                inside = range(int(cut.first[number]), int(cut.first[number] + cut.count[number]))
                others = [i for i in group if kinds[i] != OperationKind.COPY]
                if kinds[number] == OperationKind.COPY and others:
                    assert any(int(cut.first[i]) in inside for i in others)
        more += len(chunk_groups(cut)) - len(chunk_groups(program))
    assert more > 0 or kind.reduces


def test_what_waits_for_a_copy_waits_for_the_part_that_it_touches() -> None:
    """A copy of three chunks that three messages move apart: each waits for its own part alone."""
    send, receive, copy = OperationKind.SEND, OperationKind.RECEIVE, OperationKind.COPY
    own = [
        Operation(copy, 0, 3, source=Buffer.INPUT, target=Buffer.OUTPUT),
        *(Operation(send, chunk, 1, peer=1, source=Buffer.OUTPUT, waits=(0,)) for chunk in range(3)),
    ]
    other = [Operation(receive, chunk, 1, peer=0, target=Buffer.OUTPUT) for chunk in range(3)]
    program = program_from_operations(
        CollectiveKind.BROADCAST, [own, other], n_chunks=3, shard_offset=[0, 3, 3], root=0
    )
    cut = split_copies(program)
    assert cut.operation_kind.tolist() == [copy] * 3 + [send] * 3 + [receive] * 3
    assert [cut.waits_of(number).tolist() for number in range(6)] == [[], [], [], [0], [1], [2]]


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_data_in_other_chunks_take_the_same_ways(kind: CollectiveKind) -> None:
    rng = np.random.default_rng(3)
    for seed in range(6):
        topology, collective, schedule = random_case(seed, kind)
        program = lower(topology, collective, schedule, in_place=bool(seed % 2), channels=1 + seed % 2)
        bounds = np.concatenate([[0], np.cumsum(rng.integers(1, 4, program.n_chunks))])
        other = recut(program, bounds)
        assert check_program(other) == ()
        assert reference_errors(other) == []
        assert other.n_chunks == bounds[-1]
        assert other.count.tolist() == [
            int(bounds[first + count] - bounds[first])
            for first, count in zip(program.first, program.count, strict=True)
        ]
        for unchanged in ("operation_kind", "peer", "channel", "path", "waits"):
            assert np.array_equal(getattr(other, unchanged), getattr(program, unchanged))


@pytest.mark.parametrize("bounds", [[0, 1], [0, 1, 1], [1, 2, 3], [0, 2, 1]])
def test_chunks_that_vanish_are_refused(bounds: list[int]) -> None:
    program = lower(*random_case(3, CollectiveKind.ALLREDUCE))
    ends = np.array(bounds + [9] * (program.n_chunks - 2) if len(bounds) == 3 else bounds, dtype=np.int64)
    with pytest.raises(ScheduleError, match="bounds that rise from 0"):
        recut(program, ends)
