"""Programs at the limits of what their lists may hold, and what they tell of their buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.program.addresses import Addresses
from treadle.program.in_network import in_network_sends
from treadle.program.program import (
    Buffer,
    Operation,
    OperationKind,
    Program,
    _joined,
    program_from_operations,
)
from treadle.runtime.order import check_extents, describe, execution_order, match_messages
from treadle.schedules.collective import CollectiveKind
from treadle.topologies import parse

SEND, RECEIVE, ADD, COPY = OperationKind
INPUT, OUTPUT, SCRATCH = Buffer


def odd_program(**more: Any) -> Program:
    """Three ranks of unequal shards; rank 0 sends on a path of two links, rank 2 has nothing to do."""
    ranks: Sequence[Sequence[Operation]] = [
        [
            Operation(COPY, 0, 2, target=SCRATCH),
            Operation(SEND, 0, 2, peer=1, source=SCRATCH, channel=3, step=1, path=1, waits=(0,)),
            Operation(RECEIVE, 4, 1, peer=1, target=SCRATCH, step=2, waits=(0, 1)),
        ],
        [
            Operation(ADD, 0, 2, peer=0, channel=3),
            Operation(SEND, 4, 1, peer=0, path=0, waits=(0,)),
        ],
        [],
    ]
    values: dict[str, Any] = {"n_chunks": 5, "shard_offset": [0, 2, 2, 5], "paths": [[7], [2, 0], []]}
    return program_from_operations(CollectiveKind.ALLREDUCE, ranks, **values | more)


def test_a_program_tells_its_parts() -> None:
    program = odd_program(nodes=[4, 9, 0])
    assert (program.n_ranks, program.n_operations, program.n_paths, program.n_channels) == (3, 5, 3, 4)
    assert (program.n_addresses, program.root, program.in_place) == (5, -1, False)
    assert program.nodes.tolist() == [4, 9, 0]
    assert program.operation_rank.tolist() == [0, 0, 0, 1, 1]
    assert [program.operations(rank) for rank in range(3)] == [range(3), range(3, 5), range(5, 5)]
    assert [program.waits_of(one).tolist() for one in range(5)] == [[], [0], [0, 1], [], [3]]
    assert [program.links(path).tolist() for path in range(3)] == [[7], [2, 0], []]
    assert program.step.tolist() == [0, 1, 2, 0, 0]
    assert [program.shard(rank) for rank in range(3)] == [(0, 2), (2, 2), (2, 5)]
    assert [program.uses_scratch(rank) for rank in range(3)] == [True, False, False]
    assert [program.element(chunk, 13) for chunk in range(6)] == [0, 2, 5, 7, 10, 13]
    assert odd_program().nodes.tolist() == [0, 1, 2]


def changed(key: str, place: int, value: int) -> Program:
    """The program with one number of a column changed."""
    program = odd_program()
    column = getattr(program, key).copy()
    column[place] = value
    return replace(program, **{key: column})


@pytest.mark.parametrize(
    ("key", "place", "value", "message"),
    [
        ("operation_kind", 1, 4, "operation 1: operation_kind 4, expected 0 to 3"),
        ("operation_kind", 1, -1, "operation 1: operation_kind -1, expected 0 to 3"),
        ("peer", 1, 3, "operation 1: peer 3, expected -1 to 2"),
        ("peer", 1, -2, "operation 1: peer -2, expected -1 to 2"),
        ("channel", 3, -1, "operation 3: channel -1, expected 0 to 2147483647"),
        ("step", 4, -1, "operation 4: step -1, expected 0 to 2147483647"),
        ("source", 0, 3, "operation 0: source 3, expected 0 to 2"),
        ("target", 2, -1, "operation 2: target -1, expected 0 to 2"),
        ("path", 1, 3, "operation 1: path 3, expected -1 to 2"),
        ("path", 1, -2, "operation 1: path -2, expected -1 to 2"),
        ("first", 2, 5, "operation 2: first 5, expected 0 to 4"),
        ("first", 2, -1, "operation 2: first -1, expected 0 to 4"),
        ("count", 2, 0, "operation 2: count 0, expected 1 to 5"),
        ("count", 2, 6, "operation 2: count 6, expected 1 to 5"),
        ("count", 2, 2, "a chunk range ends past chunk 5"),
        ("peer", 1, 0, "every operation except COPY needs a peer other than its own rank"),
        ("peer", 1, -1, "every operation except COPY needs a peer other than its own rank"),
        ("peer", 0, 1, "every operation except COPY needs a peer other than its own rank"),
        ("waits", 0, 1, "an operation may wait only for earlier operations of its rank"),
        ("waits", 0, -1, "an operation may wait only for earlier operations of its rank"),
        ("waits", 3, 2, "an operation may wait only for earlier operations of its rank"),
        ("operation_offset", 0, 1, "operation_offset must rise from 0 to 5 in 4 values"),
        ("operation_offset", 3, 4, "operation_offset must rise from 0 to 5 in 4 values"),
        ("operation_offset", 1, 6, "operation_offset must rise from 0 to 5 in 4 values"),
        ("wait_offset", 5, 3, "wait_offset must rise from 0 to 4 in 6 values"),
        ("path_offset", 1, 4, "path_offset must rise from 0 to 3 in 4 values"),
        ("shard_offset", 3, 4, "shard_offset must rise from 0 to 5 in 4 values"),
    ],
)
def test_a_number_beyond_its_limit_is_refused(key: str, place: int, value: int, message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        changed(key, place, value)
    assert str(caught.value) == f"program: {message}"


@pytest.mark.parametrize(
    ("key", "place", "value"),
    [
        ("operation_kind", 2, int(ADD)),
        ("peer", 1, 2),
        ("channel", 3, 2**31 - 1),
        ("step", 4, 2**31 - 1),
        ("source", 0, 2),
        ("path", 1, 2),
        ("path", 1, -1),
        ("first", 2, 0),
        ("count", 0, 5),
        ("waits", 2, 1),
    ],
)
def test_a_number_at_its_limit_is_taken(key: str, place: int, value: int) -> None:
    assert getattr(changed(key, place, value), key)[place] == value


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"root": 0}, "root 0 does not fit allreduce of 3 ranks"),
        ({"n_chunks": 0, "shard_offset": [0, 0, 0, 0]}, "expected at least 1 rank and 1 chunk"),
        ({"shard_offset": [0, 2, 5]}, "shard_offset must rise from 0 to 5 in 4 values"),
        ({"shard_offset": []}, "shard_offset must rise from 0 to 5 in 4 values"),
    ],
)
def test_heads_that_do_not_fit_are_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        odd_program(**more)
    short = odd_program().step[:-1]
    with pytest.raises(ScheduleError, match="program: step has 4 values, expected 5"):
        replace(odd_program(), step=short)


def bare(kind: CollectiveKind, root: int = -1, **more: Any) -> Program:
    """A program of three ranks that does nothing."""
    values: dict[str, Any] = {"n_chunks": 5, "shard_offset": [0, 2, 2, 5]}
    return program_from_operations(kind, [[], [], []], root=root, **values | more)


@pytest.mark.parametrize(
    ("kind", "root", "inputs", "outputs"),
    [
        ("allgather", -1, [[(0, 2)], [], [(2, 5)]], [[(0, 5)]] * 3),
        ("reduce-scatter", -1, [[(0, 5)]] * 3, [[(0, 2)], [], [(2, 5)]]),
        ("allreduce", -1, [[(0, 5)]] * 3, [[(0, 5)]] * 3),
        ("broadcast", 2, [[], [], [(0, 5)]], [[(0, 5)]] * 3),
        ("reduce", 0, [[(0, 5)]] * 3, [[(0, 5)], [], []]),
    ],
)
def test_ranks_have_what_their_collective_says(
    kind: str, root: int, inputs: list[list[tuple[int, int]]], outputs: list[list[tuple[int, int]]]
) -> None:
    program = bare(CollectiveKind(kind), root)
    assert [program.ranges(rank, INPUT) for rank in range(3)] == inputs
    assert [program.ranges(rank, OUTPUT) for rank in range(3)] == outputs
    assert [program.ranges(rank, SCRATCH) for rank in range(3)] == [[(0, 5)]] * 3
    for rank in range(3):
        found = Addresses(program, rank)
        sizes = [sum(past - low for low, past in ranges[rank]) or 5 for ranges in (inputs, outputs)]
        assert [found.input_chunks, found.output_chunks] == sizes
        assert found.scratch.tolist() == []
    with pytest.raises(ScheduleError, match="does not fit"):
        bare(CollectiveKind(kind), 3)


def test_an_exchange_has_a_shard_for_each_pair() -> None:
    """Shard (u, v) is number 3 u + v; scratch has what operations name, and no more."""
    offsets = [0, 1, 3, 3, 4, 6, 7, 7, 8, 9]
    ranks = [
        [
            Operation(RECEIVE, 7, 1, peer=1, target=SCRATCH),
            Operation(RECEIVE, 3, 2, peer=1, target=SCRATCH),
            Operation(SEND, 4, 2, peer=1, source=SCRATCH),
            Operation(SEND, 1, 1, peer=1),
        ],
        [],
        [],
    ]
    program = program_from_operations(CollectiveKind.ALLTOALL, ranks, n_chunks=4, shard_offset=offsets)
    assert program.n_addresses == 9
    assert [program.ranges(rank, INPUT) for rank in range(3)] == [[(0, 3)], [(3, 7)], [(7, 9)]]
    assert [program.ranges(rank, OUTPUT) for rank in range(3)] == [
        [(0, 1), (3, 4)],
        [(1, 3), (4, 6), (7, 8)],
        [(6, 7), (8, 9)],
    ]
    assert [program.ranges(rank, SCRATCH) for rank in range(3)] == [[(3, 6), (7, 8)], [], []]
    found = Addresses(program, 0)
    assert found.scratch.tolist() == [3, 4, 5, 7]
    assert [found.offset(int(SCRATCH), chunk) for chunk in (3, 5, 7)] == [0, 2, 3]
    other = Addresses(program, 1)
    assert (other.input_chunks, other.output_chunks) == (4, 5)
    assert [other.offset(int(OUTPUT), chunk) for chunk in (1, 2, 4, 5, 7)] == [0, 1, 2, 3, 4]
    with pytest.raises(ScheduleError, match="an all-to-all cannot be in place"):
        replace(program, in_place=True)
    with pytest.raises(ScheduleError, match="shard_offset must rise from 0 to 9 in 10 values"):
        replace(program, shard_offset=np.array(offsets[1:], dtype=np.int64))


def test_ranges_that_touch_become_one() -> None:
    assert _joined([(0, 2), (2, 3), (5, 5), (6, 9), (7, 8), (9, 9), (10, 11)]) == [(0, 3), (6, 9), (10, 11)]
    assert _joined([(1, 1)]) == []


def test_operations_are_told_in_words() -> None:
    program = odd_program()
    assert [describe(program, one) for one in range(5)] == [
        "rank 0, operation 0 (COPY of chunks 0 to 1)",
        "rank 0, operation 1 (SEND of chunks 0 to 1 with rank 1 on channel 3)",
        "rank 0, operation 2 (RECEIVE of chunk 4 with rank 1 on channel 0)",
        "rank 1, operation 0 (RECEIVE_REDUCE of chunks 0 to 1 with rank 0 on channel 3)",
        "rank 1, operation 1 (SEND of chunk 4 with rank 0 on channel 0)",
    ]
    partner = match_messages(program)
    assert partner.tolist() == [-1, 3, 4, 1, 2]
    assert execution_order(program, partner).tolist() == [0, 1, 3, 4, 2]
    check_extents(program)


def matched(first: Sequence[Operation], second: Sequence[Operation]) -> list[int]:
    """Ends of the messages of two ranks with five chunks."""
    program = program_from_operations(
        CollectiveKind.ALLREDUCE, [first, second], n_chunks=5, shard_offset=[0, 2, 5]
    )
    return [int(one) for one in match_messages(program)]


def test_messages_meet_in_turn_on_each_channel() -> None:
    sends = [Operation(SEND, chunk, 1, peer=1, channel=lane) for chunk, lane in ((0, 1), (1, 0), (2, 1))]
    receives = [
        Operation(RECEIVE, chunk, 1, peer=0, channel=lane) for chunk, lane in ((0, 1), (2, 1), (1, 0))
    ]
    back = Operation(SEND, 4, 1, peer=0)
    assert matched([*sends, Operation(ADD, 4, 1, peer=1)], [back, *receives]) == [5, 7, 6, 4, 3, 0, 2, 1]
    with pytest.raises(ScheduleError) as caught:
        matched(sends[:2], receives)
    assert str(caught.value) == (
        "program: from rank 0 to rank 1 on channel 1: 1 sends, 2 receives; expected as many of each"
    )
    with pytest.raises(ScheduleError, match="from rank 1 to rank 0 on channel 0: 1 sends, 0 receives"):
        matched(sends, [back, *receives])
    for other in (Operation(RECEIVE, 2, 2, peer=0, channel=1), Operation(RECEIVE, 3, 1, peer=0, channel=1)):
        with pytest.raises(ScheduleError) as caught:
            matched(sends, [receives[0], other, receives[2]])
        chunks = "chunks 2 to 3" if other.count == 2 else "chunk 3"
        assert str(caught.value) == (
            "program: rank 0, operation 2 (SEND of chunk 2 with rank 1 on channel 1) meets rank 1, "
            f"operation 1 (RECEIVE of {chunks} with rank 0 on channel 1): expected the same chunks"
        )


@pytest.mark.parametrize(
    ("kind", "operation", "message"),
    [
        (
            "allgather",
            Operation(COPY, 1, 2),
            "(COPY of chunks 1 to 2) reads INPUT, which has chunks 0 to 1 there",
        ),
        ("allgather", Operation(COPY, 0, 1, target=INPUT), "writes INPUT, but the program is not in place"),
        ("reduce-scatter", Operation(COPY, 1, 2), "writes OUTPUT, which has chunks 0 to 1 there"),
        ("reduce-scatter", Operation(COPY, 2, 1), "writes OUTPUT, which has chunks 0 to 1 there"),
        ("broadcast", Operation(COPY, 2, 1), "reads INPUT, which does not exist there"),
    ],
)
def test_operations_beyond_their_buffers_are_told(kind: str, operation: Operation, message: str) -> None:
    found = CollectiveKind(kind)
    program = program_from_operations(
        found,
        [[replace(operation, first=0, count=2, source=SCRATCH, target=SCRATCH), operation], [], []],
        n_chunks=5,
        shard_offset=[0, 5, 5, 5] if found.is_rooted else [0, 2, 2, 5],
        root=1 if found.is_rooted else -1,
    )
    with pytest.raises(ScheduleError) as caught:
        check_extents(program)
    assert str(caught.value).startswith("program: rank 0, operation 1 (COPY of chunk")
    assert str(caught.value).endswith(message)


def test_chunks_before_those_of_a_buffer_are_told() -> None:
    for first, is_there in ((0, False), (1, False), (2, True), (4, True)):
        program = program_from_operations(
            CollectiveKind.ALLGATHER,
            [[], [], [Operation(COPY, first, 1)]],
            n_chunks=5,
            shard_offset=[0, 2, 2, 5],
        )
        if is_there:
            check_extents(program)
        else:
            with pytest.raises(ScheduleError, match="reads INPUT, which has chunks 2 to 4 there"):
                check_extents(program)


def test_a_circle_of_waits_is_told() -> None:
    first = [Operation(RECEIVE, 0, 1, peer=1), Operation(SEND, 1, 1, peer=1, waits=(0,))]
    second = [Operation(RECEIVE, 1, 1, peer=0), Operation(SEND, 0, 1, peer=0, waits=(0,))]
    free = Operation(COPY, 0, 1)
    program = program_from_operations(
        CollectiveKind.ALLREDUCE, [[free, *(replace(one, waits=()) for one in first[:1]), first[1]], second],
        n_chunks=2, shard_offset=[0, 1, 2],
    )  # fmt: skip
    assert execution_order(program, match_messages(program)).tolist() == [0, 2, 3, 4, 1]
    stuck = program_from_operations(
        CollectiveKind.ALLREDUCE, [[free, first[0], replace(first[1], waits=(1,))], second],
        n_chunks=2, shard_offset=[0, 1, 2],
    )  # fmt: skip
    with pytest.raises(ScheduleError) as caught:
        execution_order(stuck, match_messages(stuck))
    assert str(caught.value) == (
        "program: deadlock: 4 of 5 operations can never start, the first is rank 0, operation 1 (RECEIVE of "
        "chunk 0 with rank 1 on channel 0)"
    )


@pytest.mark.parametrize(
    ("links", "is_found"), [([(0, 1)], False), ([(1, 2)], True), ([(0, 1), (1, 2)], True), ([(2, 1)], True)]
)
def test_sends_whose_path_ends_elsewhere_are_the_networks(
    links: list[tuple[int, int]], is_found: bool
) -> None:
    """Rank 0 is on node 0 and rank 1 on node 1."""
    topology = parse("complete:3")
    numbers = {
        (int(tail), int(head)): link
        for link, (tail, head) in enumerate(zip(topology.tails, topology.heads, strict=True))
    }
    program = program_from_operations(
        CollectiveKind.BROADCAST,
        [[Operation(SEND, 0, 1, peer=1), Operation(SEND, 0, 1, peer=1, path=0)],
         [Operation(RECEIVE, 0, 1, peer=0)] * 2],
        n_chunks=1, shard_offset=[0, 1, 1], root=0, paths=[[numbers[link] for link in links]],
    )  # fmt: skip
    assert in_network_sends(topology, program).tolist() == ([1] if is_found else [])
