"""Passes over programs: the result is checked, executed by the reference and compared in size."""

from __future__ import annotations

import numpy as np
import pytest

from exchange_samples import alltoall, over_shortest_paths
from program_cases import random_case, reference_errors
from treadle.errors import ScheduleError
from treadle.lowering.check import check_program
from treadle.lowering.exchange import lower_exchange
from treadle.lowering.forest import lower
from treadle.lowering.interpret import interpret_msccl_xml
from treadle.lowering.msccl_xml import emit_msccl_xml
from treadle.lowering.mscclpp_lanes import chunk_groups
from treadle.lowering.passes import MAX_INSTANCES, merge_messages, recut, replicate, split_copies
from treadle.lowering.program import OperationKind, Program
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind
from treadle.topologies.graphs import torus


def sends(program: Program) -> int:
    return int((program.operation_kind == OperationKind.SEND).sum())


def exchange(*, merge: bool) -> Program:
    topology = torus(3, 3)
    collective = alltoall(topology)
    return lower_exchange(topology, collective, over_shortest_paths(topology, collective), merge=merge)


@pytest.mark.parametrize("instances", [1, 2, 3])
@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_instances_do_the_same_side_by_side(kind: CollectiveKind, instances: int) -> None:
    for seed in range(12):
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


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_merged_messages_do_the_same(kind: CollectiveKind) -> None:
    fewer = 0
    for seed in range(20):
        topology, collective, schedule = random_case(seed, kind)
        program = lower(
            topology, collective, schedule, in_place=bool(seed % 2), channels=1 + seed % 2, merge=False
        )
        merged = merge_messages(program)
        assert check_program(merged) == ()
        assert reference_errors(merged) == []
        assert int(merged.count.sum()) == int(program.count.sum())
        assert merge_messages(merged) == merged
        fewer += sends(program) - sends(merged)
    assert fewer > 0


def test_merging_leaves_no_more_than_lowering_does() -> None:
    merged = merge_messages(exchange(merge=False))
    assert check_program(merged) == ()
    assert interpret_msccl_xml(emit_msccl_xml(merged)).violations == ()
    assert sends(merged) <= sends(exchange(merge=True))


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_copies_are_cut_like_messages(kind: CollectiveKind) -> None:
    """What ties chunks together afterwards are messages alone."""
    more = 0
    for seed in range(20):
        topology, collective, schedule = random_case(seed, kind)
        program = lower(topology, collective, schedule, in_place=bool(seed % 2), merge=False)
        cut = split_copies(program)
        assert check_program(cut) == ()
        assert reference_errors(cut) == []
        assert sends(cut) == sends(program)
        assert int(cut.count.sum()) == int(program.count.sum())
        assert split_copies(cut) == cut
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


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_data_in_other_chunks_take_the_same_ways(kind: CollectiveKind) -> None:
    rng = np.random.default_rng(3)
    for seed in range(12):
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
