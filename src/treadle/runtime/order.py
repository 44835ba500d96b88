"""Conditions for executing a program: messages match, ranges exist, and some order is legal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

import numpy as np

from treadle.arrays import BoolArray, Int64Array, frozen, mask_of, offsets_of
from treadle.errors import ScheduleError
from treadle.program.message_levels import message_partners
from treadle.program.operation_lists import OperationLists
from treadle.program.program import Buffer, OperationKind, Program


def match_messages(program: OperationLists) -> Int64Array:
    """Pair every send with its receive.

    The i-th send from a to b on a channel belongs to the i-th receive at b from a on that channel.

    Returns
    -------
    array of int64, shape (n,)
        Number of the operation at the other end; -1 for copies.

    Raises
    ------
    ScheduleError
        If a stream has more sends than receives or vice versa, or the two name other chunks.
    """
    kind, rank = program.operation_kind, program.operation_rank
    partner = message_partners(program)
    if np.any((partner < 0) & (kind != OperationKind.COPY)):
        raise ScheduleError(_unmatched_stream(program))
    sends = np.flatnonzero(kind == OperationKind.SEND)
    sends = sends[np.lexsort((program.channel[sends], program.peer[sends], rank[sends]))]
    receives = partner[sends]
    differ = (program.first[sends] != program.first[receives]) | (
        program.count[sends] != program.count[receives]
    )
    for place in np.flatnonzero(differ)[:1]:
        send, receive = int(sends[place]), int(receives[place])
        raise ScheduleError(
            f"program: {describe(program, send)} meets {describe(program, receive)}: expected the same chunks"
        )
    return frozen(partner, np.int64)


def check_executable(program: Program) -> tuple[Int64Array, Int64Array]:
    """Return partners and a serial order; ScheduleError if the program cannot be executed."""
    check_extents(program)
    partner = match_messages(program)
    return partner, execution_order(program, partner)


def check_extents(program: Program) -> None:
    """Raise ScheduleError if an operation touches chunks that its rank's buffer has not, or writes INPUT.

    INPUT may be written by in-place programs only.
    """
    kind = program.operation_kind
    reads = kind != OperationKind.RECEIVE
    writes = kind != OperationKind.SEND
    for rank in range(program.n_ranks):
        for uses, buffers, word in ((reads, program.source, "reads"), (writes, program.target, "writes")):
            for buffer in Buffer:
                own = np.arange(*program.operation_offset[rank : rank + 2])
                own = own[uses[own] & (buffers[own] == buffer)]
                if own.size:
                    _check_ranges(program, own, buffer, program.ranges(rank, buffer), word)
    if not program.in_place:
        for place in np.flatnonzero(writes & (program.target == Buffer.INPUT))[:1]:
            raise ScheduleError(
                f"program: {describe(program, int(place))} writes INPUT, but the program is not in place"
            )


def _check_ranges(
    program: Program, operations: Int64Array, buffer: Buffer, ranges: list[tuple[int, int]], word: str
) -> None:
    """Each of the operations must lie within one of the ranges."""
    low, high = np.array([(-1, -1), *ranges], dtype=np.int64).T
    first = program.first[operations]
    place = np.searchsorted(low, first, side="right") - 1
    for wrong in operations[first + program.count[operations] > high[place]][:1]:
        has = ", ".join(f"{start} to {past - 1}" for start, past in ranges[:4])
        more = ", ..." if len(ranges) > 4 else ""
        raise ScheduleError(
            f"program: {describe(program, int(wrong))} {word} {buffer.name}, "
            + (f"which has chunks {has}{more} there" if ranges else "which does not exist there")
        )


def execution_order(program: Program, partner: Int64Array) -> Int64Array:
    """A serial order of all operations of all ranks that respects waits and messages.

    Depth first: what an operation has just made ready runs next, while its data is in cache; the receive
    of a send comes straight after it where nothing else holds the receive up.

    Parameters
    ----------
    partner : array of int64, shape (n,)
        From `match_messages`.

    Returns
    -------
    array of int64, shape (n,)

    Raises
    ------
    ScheduleError
        If the program deadlocks: operations wait for each other in a cycle.
    """
    total = program.n_operations
    waiting = np.repeat(np.arange(total), np.diff(program.wait_offset))
    nodes = waiting[np.argsort(program.waits, kind="stable")].tolist()
    starts = offsets_of(np.bincount(program.waits, minlength=total)).tolist()
    is_send = (program.operation_kind == OperationKind.SEND).tolist()
    receives = is_receive(program)
    missing = (np.diff(program.wait_offset) + receives).tolist()
    other = partner.tolist()
    ready = [operation for operation in range(total - 1, -1, -1) if missing[operation] == 0]
    order: list[int] = []
    while ready:
        operation = ready.pop()
        order.append(operation)
        for follower in nodes[starts[operation] : starts[operation + 1]]:
            missing[follower] -= 1
            if missing[follower] == 0:
                ready.append(follower)
        if is_send[operation]:
            receive = other[operation]
            missing[receive] -= 1
            if missing[receive] == 0:
                ready.append(receive)
    if len(order) < total:
        stuck = next(operation for operation in range(total) if missing[operation] > 0)
        raise ScheduleError(
            f"program: deadlock: {total - len(order)} of {total} operations can never start, "
            f"the first is {describe(program, stuck)}"
        )
    return np.array(order, dtype=np.int64)


def topological_order(before: Mapping[int, Iterable[int]]) -> list[int]:
    """Order numbers behind all that come before them; ScheduleError if they wait for each other."""
    try:
        return list(TopologicalSorter(before).static_order())
    except CycleError:
        raise ScheduleError("program: deadlock: operations wait for each other in a cycle") from None


def is_receive(program: OperationLists) -> BoolArray:
    """True for operations that need a message to arrive: receives, with or without reduction, shape (n,)."""
    kind = program.operation_kind
    return np.isin(kind, (OperationKind.RECEIVE, OperationKind.RECEIVE_REDUCE))


def is_awaited(program: OperationLists) -> BoolArray:
    """True for operations that another operation waits for, shape (n,)."""
    return mask_of(program.n_operations, program.waits)


def describe(program: OperationLists, operation: int) -> str:
    """Describe an operation, for messages."""
    rank = int(np.searchsorted(program.operation_offset, operation, side="right")) - 1
    place = operation - int(program.operation_offset[rank])
    first, count = int(program.first[operation]), int(program.count[operation])
    name = OperationKind(int(program.operation_kind[operation])).name
    chunks = f"chunk {first}" if count == 1 else f"chunks {first} to {first + count - 1}"
    peer = int(program.peer[operation])
    link = "" if peer < 0 else f" with rank {peer} on channel {int(program.channel[operation])}"
    return f"rank {rank}, operation {place} ({name} of {chunks}{link})"


def _unmatched_stream(program: OperationLists) -> str:
    moves = program.operation_kind != OperationKind.COPY
    is_send = program.operation_kind == OperationKind.SEND
    rank, peer = program.operation_rank, program.peer
    keys = np.stack([np.where(is_send, rank, peer), np.where(is_send, peer, rank), program.channel])
    streams, inverse = np.unique(keys[:, moves], axis=1, return_inverse=True)
    sent, received = (
        np.bincount(inverse.reshape(-1)[side[moves]], minlength=streams.shape[1])
        for side in (is_send, ~is_send)
    )
    place = int(np.flatnonzero(sent != received)[0])
    tail, head, channel = (int(value) for value in streams[:, place])
    return (
        f"program: from rank {tail} to rank {head} on channel {channel}: {sent[place]} sends, "
        f"{received[place]} receives; expected as many of each"
    )
