"""Levels of messages: right by brute force, and no circle arises from what runtimes do by them."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import networkx as nx
import numpy as np

from samples import exchange_samples, greedy_steps
from samples.program_cases import random_case
from samples.runtime_programs import exchange, random_program
from treadle.planning import program_of, solve
from treadle.program.any_schedule import lower
from treadle.program.message_levels import continues, dataflow, requires_copy, stands_alone
from treadle.program.program import Buffer, Operation, OperationKind, Program, program_from_operations
from treadle.runtime.order import match_messages
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind

SEND, RECEIVE = OperationKind.SEND, OperationKind.RECEIVE


def programs() -> list[Program]:
    found = [
        lower(*random_case(seed, kind), in_place=in_place)
        for seed in range(6)
        for kind in CollectiveKind
        if kind is not CollectiveKind.ALLTOALL
        for in_place in (False, True)
    ]
    ring = greedy_steps.ring(5, both=True)
    found += [lower(*greedy_steps.whole_buffer_allreduce(4)), exchange(8, in_place=True)]
    for kind in SPANNING_KINDS:
        collective, schedule = greedy_steps.greedy_schedule(ring, kind, seed=5, root=1)
        found.append(lower(ring, collective, schedule))
    for demands in (None, exchange_samples.random_demands(5, seed=5)):
        collective = exchange_samples.alltoall(ring, demands)
        schedule = exchange_samples.over_shortest_paths(ring, collective, rounds=3)
        found.append(lower(ring, collective, schedule, channels=2))
    return found


def random_dataflow(seed: int) -> Program:
    """Messages and copies among three ranks that wait for whatever came before; what moves means nothing."""
    rng = random.Random(seed)
    ranks: list[list[Operation]] = [[], [], []]
    sent: dict[tuple[int, int], list[int]] = {(a, b): [] for a in range(3) for b in range(3) if a != b}
    chunk = {(a, b): 150 * a + 50 * b for a, b in sent}

    def add(rank: int, kind: OperationKind, first: int, peer: int) -> None:
        before = range(len(ranks[rank]))
        waits = tuple(sorted(rng.sample(before, min(len(before), rng.choice((0, 0, 0, 1, 1, 2))))))
        source, target = rng.choices((Buffer.INPUT, Buffer.SCRATCH), (4, 1), k=2)
        ranks[rank].append(Operation(kind, first, 1, peer=peer, source=source, target=target, waits=waits))

    for _ in range(60):
        a, b = rng.choice(list(sent))
        if sent[a, b] and rng.random() < 0.5:
            add(
                b, rng.choice((RECEIVE, RECEIVE, RECEIVE, OperationKind.RECEIVE_REDUCE)), sent[a, b].pop(0), a
            )
        elif rng.random() < 0.1:
            add(a, OperationKind.COPY, 0, -1)
        else:
            chunk[a, b] += rng.random() < 0.9
            sent[a, b].append(chunk[a, b])
            add(a, SEND, chunk[a, b], b)
    for (a, b), chunks in sent.items():
        for first in chunks:
            add(b, RECEIVE, first, a)
    return program_from_operations(
        CollectiveKind.ALLREDUCE, ranks, n_chunks=500, shard_offset=[0, 500, 500, 500], in_place=True
    )


PROGRAMS = [*programs(), *map(random_dataflow, range(150))]


def graph(program: Program) -> nx.DiGraph:
    """Operations, what they wait for, and messages."""
    result = nx.DiGraph()
    result.add_nodes_from(range(program.n_operations))
    for operation in range(program.n_operations):
        result.add_edges_from((int(wait), operation) for wait in program.waits_of(operation))
    partner = match_messages(program)
    for send in np.flatnonzero(program.operation_kind == SEND).tolist():
        result.add_edge(send, int(partner[send]))
    return result


def test_levels_count_sends_on_the_longest_chain() -> None:
    for program in PROGRAMS:
        flow, edges = dataflow(program), graph(program)
        assert np.array_equal(flow.partner, match_messages(program))
        behind: dict[int, int] = {}
        for operation in nx.topological_sort(edges):
            before = list(edges.predecessors(operation))
            steps = [behind[other] + (program.operation_kind[other] == SEND) for other in before]
            behind[operation] = max(steps, default=0)
        for operation, kind in enumerate(program.operation_kind.tolist()):
            sender = operation if kind == SEND else int(flow.partner[operation])
            assert flow.level[operation] == (-1 if kind == OperationKind.COPY else behind[sender])
        assert all(flow.turn[one] < flow.turn[other] for one, other in edges.edges)


def test_both_ends_of_every_message_have_the_same_number() -> None:
    for program in PROGRAMS:
        flow = dataflow(program)
        sends = np.flatnonzero(program.operation_kind == SEND)
        assert np.array_equal(flow.number[sends], flow.number[flow.partner[sends]])
        pairs = zip(program.operation_rank[sends].tolist(), program.peer[sends].tolist(), strict=True)
        keys = list(zip(pairs, flow.number[sends].tolist(), strict=True))
        assert len(set(keys)) == len(keys)
        assert max(number for _, number in keys) < max(Counter(pair for pair, _ in keys).values())


def test_no_circle_arises_from_what_runtimes_do() -> None:
    """Starts of operations, where sends of a level and joined receives wait for each other, and what waits
    for a send that goes without a copy waits until its receive has started.
    """
    joined = 0
    for program in PROGRAMS:
        flow, starts, rank = dataflow(program), graph(program), program.operation_rank
        place: dict[int, tuple[int, ...]] = {}
        run = 0
        follows, numbers = continues(program, flow), flow.number
        ordered = np.lexsort((numbers, program.operation_kind, program.peer, rank)).tolist()
        for operation in ordered:
            kind = int(program.operation_kind[operation])
            run += not follows[operation]
            if kind == SEND:
                ends = int(rank[operation]), int(program.peer[operation]), int(flow.level[operation])
                place[operation] = (kind, *ends)
            else:
                place[operation] = (kind, run)
        joined += int(follows.sum())
        copied = requires_copy(program, flow)
        for send in np.flatnonzero((program.operation_kind == SEND) & ~copied).tolist():
            receive = int(flow.partner[send])
            starts.add_edges_from(
                (receive, after) for after in list(starts.successors(send)) if after != receive
            )
        contracted = nx.DiGraph()
        for one, other in starts.edges:
            assert place[one] != place[other]
            contracted.add_edge(place[one], place[other])
        assert nx.is_directed_acyclic_graph(contracted)
    assert joined > 0


def test_joined_messages_are_one_piece_of_memory_at_both_ends() -> None:
    pipelined = program_of(solve("mi250(1, 8)", "alltoall", algorithm="pipelined").plan, 0)
    assert continues(pipelined, dataflow(pipelined)).sum() > pipelined.n_operations // 2
    for program in (*PROGRAMS, pipelined):
        flow = dataflow(program)
        follows, rank, kinds = continues(program, flow), program.operation_rank, program.operation_kind
        ends = zip((kinds == SEND).tolist(), rank.tolist(), program.peer.tolist(), strict=True)
        named = dict(zip(zip(ends, flow.number.tolist(), strict=True), range(len(rank)), strict=True))
        for (end, number), operation in named.items():
            if follows[operation]:
                before = named[end, number - 1]
                assert OperationKind.RECEIVE_REDUCE not in kinds[[operation, before]]
                assert program.first[operation] == program.first[before] + program.count[before]
                memory = program.source if end[0] else program.target
                assert memory[operation] == memory[before]
                assert flow.level[operation] == flow.level[before]
                assert follows[flow.partner[operation]]
                assert flow.number[flow.partner[before]] == number - 1


def test_recursive_doubling_in_place_needs_copies_and_an_allreduce_of_trees_none() -> None:
    """In the first, two ranks overwrite what they send each other; in the second, sums come back later."""
    doubling = exchange(4, in_place=True)
    assert np.array_equal(requires_copy(doubling, dataflow(doubling)), doubling.operation_kind == SEND)
    program = random_program(CollectiveKind.ALLREDUCE, 5, seed=3, trees_per_root=2)
    awaited = np.isin(np.arange(program.n_operations), program.waits)
    assert np.any(awaited & (program.operation_kind == SEND))
    assert not requires_copy(program, dataflow(program)).any()


def test_a_send_needs_a_copy_where_its_receive_is_behind_a_bundle_that_is_behind_it() -> None:
    """Rank 1 stores the first message after the third, which goes with the last, which waits for the first:
    the copy in between must not wait until the first has been stored, though its own chain is longer.
    """
    copies = [Operation(OperationKind.COPY, 5, 1, waits=(place,)) for place in range(2, 8)]
    sender = [
        Operation(SEND, 0, 1, peer=1),
        Operation(SEND, 1, 1, peer=1),
        Operation(OperationKind.COPY, 5, 1),
        *copies,
        Operation(OperationKind.COPY, 5, 1, waits=(0, 8)),
        Operation(SEND, 2, 1, peer=1, waits=(1,)),
        Operation(SEND, 3, 1, peer=1, waits=(9,)),
    ]
    receiver = [Operation(RECEIVE, 1, 1, peer=0, channel=1), Operation(RECEIVE, 2, 1, peer=0, channel=1)]
    receiver.append(Operation(RECEIVE, 0, 1, peer=0, waits=(1,)))
    receiver.append(Operation(RECEIVE, 3, 1, peer=0))
    for place in (1, 10):
        sender[place] = replace(sender[place], channel=1)
    program = program_from_operations(
        CollectiveKind.BROADCAST, [sender, receiver], n_chunks=6, shard_offset=[0, 6, 6], root=0
    )
    flow = dataflow(program)
    assert flow.level[10] == flow.level[11] == 1
    assert requires_copy(program, flow)[0]


def chain(chunks: int) -> Program:
    """A broadcast 0 -> 1 -> 2, chunk by chunk."""

    def hop(kind: OperationKind, chunk: int, peer: int, waits: tuple[int, ...] = ()) -> Operation:
        return Operation(kind, chunk, 1, peer=peer, waits=waits)

    middle = [
        hop(kind, chunk, peer, waits)
        for chunk in range(chunks)
        for kind, peer, waits in ((RECEIVE, 0, ()), (SEND, 2, (2 * chunk,)))
    ]
    first, last = ([hop(kind, chunk, 1) for chunk in range(chunks)] for kind in (SEND, RECEIVE))
    return program_from_operations(
        CollectiveKind.BROADCAST,
        [first, middle, last],
        n_chunks=chunks,
        shard_offset=[0, *[chunks] * 3],
        root=0,
    )


def test_chunks_of_a_chain_share_levels() -> None:
    program = chain(3)
    flow = dataflow(program)
    assert flow.level.tolist() == [0, 0, 0, 0, 1, 0, 1, 0, 1, 1, 1, 1]
    assert not stands_alone(program, flow).any()


def test_direct_messages_stand_alone_and_forwarded_ones_do_not() -> None:
    direct = program_of(solve("complete(4)", "alltoall").plan, 0)
    alone = stands_alone(direct, dataflow(direct))
    assert np.array_equal(alone, direct.operation_kind != OperationKind.COPY)
    ring = program_of(solve("ring(4)", "alltoall", algorithm="tsmcf").plan, 0)
    alone, flow = stands_alone(ring, dataflow(ring)), dataflow(ring)
    for operation in np.flatnonzero(ring.operation_kind != OperationKind.COPY).tolist():
        ends = {operation, int(flow.partner[operation])}
        touched = {other for end in ends for other in ring.waits_of(end).tolist()}
        awaited = {int(wait) for wait in ring.waits}
        assert alone[operation] == (not touched and not ends & awaited)
    summed = random_program(CollectiveKind.REDUCE, 2, seed=0, trees_per_root=1)
    assert not stands_alone(summed, dataflow(summed)).any()


def test_waits_in_a_circle_are_no_reason_to_fail() -> None:
    """The check that refuses deadlocks comes elsewhere; both ends still agree."""
    own = [Operation(RECEIVE, 1, 1, peer=1), Operation(SEND, 0, 1, peer=1, waits=(0,))]
    other = [Operation(RECEIVE, 0, 1, peer=0), Operation(SEND, 1, 1, peer=0, waits=(0,))]
    program = program_from_operations(
        CollectiveKind.ALLGATHER, [own, other], n_chunks=2, shard_offset=[0, 1, 2]
    )
    assert dataflow(program).level.tolist() == [0, 0, 0, 0]


def test_channels_do_not_disturb_the_numbers() -> None:
    """Two channels whose messages are listed in another order at the receiver."""

    def message(kind: OperationKind, first: int, channel: int) -> Operation:
        peer = 1 if kind is SEND else 0
        return Operation(kind, first, 1, peer=peer, channel=channel)

    program = program_from_operations(
        CollectiveKind.BROADCAST,
        [
            [message(SEND, 0, 1), message(SEND, 1, 0)],
            [message(RECEIVE, 1, 0), message(RECEIVE, 0, 1)],
        ],
        n_chunks=2,
        shard_offset=[0, 2, 2],
        root=0,
    )
    assert dataflow(program).number.tolist() == [0, 1, 1, 0]
