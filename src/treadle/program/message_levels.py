"""Dataflow of a program across ranks: messages that may travel together, by levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.arrays import BoolArray, FrozenArrays, Int32Array, Int64Array, mask_of
from treadle.program.operation_lists import OperationLists
from treadle.program.program import OperationKind, Program
from treadle.program.trees.send_order import positions_within


@dataclass(frozen=True, eq=False)
class Dataflow(FrozenArrays):
    """Order of the operations, within the ranks and from a send to its receive.

    Parameters
    ----------
    partner : array of int64, shape (n,)
        Operation at the other end of a message, -1 for copies and for ends without a partner.
    level : array of int64, shape (n,)
        Maximum number of sends on a chain of waits and messages that ends at the send, without it; the same
        at both ends, -1 for copies. A send depends on messages of lower levels only.
    turn : array of int64, shape (n,)
        Number that rises along every wait and message, first by sends before the operation, then by length
        of the chains that end there. Turns and levels of operations in a deadlock mean nothing.
    number : array of int64, shape (n,)
        Number of each message among all from the same sender to the same receiver, by level and chunks, the
        same at both ends; -1 for copies.

    Notes
    -----
    Runtimes may let all sends of one level and pair of ranks wait for each other, also all receives that
    continue one another, and let an operation that waits for a send without a copy wait until the receive of
    that send has started. This cannot cause a dependency cycle: no operation waits for one that is behind
    more sends, so all operations of a cycle would be behind equally many, and none would be a send; but the
    others wait for shorter chains only.
    """

    partner: Int64Array
    level: Int64Array
    turn: Int64Array
    number: Int64Array

    def __post_init__(self) -> None:
        self._freeze("dataflow")


def dataflow(program: OperationLists) -> Dataflow:
    """Return levels, turns and numbers of all operations; O(n log n) for n operations and waits.

    Examples
    --------
    In a chain 0 -> 1 -> 2 of one chunk the messages have levels 0 and 1; cut into chunks, the first hops of
    all chunks have level 0 and the second hops level 1.
    """
    is_send = program.operation_kind == OperationKind.SEND
    is_copy = program.operation_kind == OperationKind.COPY
    pair, partner = _pairs(program), message_partners(program)
    depth, behind = _longest_chains(program, partner)
    level = np.where(partner >= 0, np.minimum(behind, behind[partner]), behind)  # that of the send
    level[is_copy] = -1
    number = np.full(program.n_operations, -1, dtype=np.int64)
    for end in (is_send, ~is_send & ~is_copy):
        places = np.flatnonzero(end)
        # Operations without a partner come last, so that they change no other number.
        keys = (program.channel, program.first, level, partner < 0, pair)
        number[places] = positions_within(pair[places], [key[places] for key in keys])
    turn = behind * (program.n_operations + 1) + depth
    return Dataflow(partner, level, turn, number)


def _pairs(program: OperationLists) -> Int64Array:
    """Return the sender and receiver of each operation's message as one number."""
    is_send = program.operation_kind == OperationKind.SEND
    owner, peer = program.operation_rank.astype(np.int64), program.peer.astype(np.int64)
    return np.where(is_send, owner, peer) * program.n_ranks + np.where(is_send, peer, owner)


def message_partners(program: OperationLists) -> Int64Array:
    """Return the other end of each message, the i-th send or receive of a stream; -1 without one."""
    stream = _pairs(program) * program.n_channels + program.channel
    is_send = program.operation_kind == OperationKind.SEND
    ends = []
    for end in (is_send, ~is_send & (program.operation_kind != OperationKind.COPY)):
        places = np.flatnonzero(end)
        ends.append((places, stream[places], positions_within(stream[places], [stream[places]])))
    longest = max((int(turn.max(initial=0)) for _, _, turn in ends), default=0) + 1
    (sends, *out), (receives, *into) = ends
    keys = (out[0] * longest + out[1], into[0] * longest + into[1])
    _, at_send, at_receive = np.intersect1d(*keys, assume_unique=True, return_indices=True)
    partner = np.full(program.n_operations, -1, dtype=np.int64)
    partner[sends[at_send]], partner[receives[at_receive]] = receives[at_receive], sends[at_send]
    return partner


def _longest_chains(program: OperationLists, partner: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the maximum number of operations, and of sends, on chains that end before each operation."""
    total = program.n_operations
    is_send = (program.operation_kind == OperationKind.SEND).tolist()
    is_receive = ~np.isin(program.operation_kind, (OperationKind.SEND, OperationKind.COPY))
    waiting = np.repeat(np.arange(total), np.diff(program.wait_offset))
    order = np.argsort(program.waits, kind="stable")
    starts = np.searchsorted(program.waits[order], np.arange(total + 1)).tolist()
    followers, other = waiting[order].tolist(), partner.tolist()
    missing = (np.diff(program.wait_offset) + (is_receive & (partner >= 0))).tolist()
    depth, sends = [0] * total, [0] * total
    ready = [operation for operation in range(total) if missing[operation] == 0]
    for operation in ready:  # grows on the way
        below, behind = depth[operation] + 1, sends[operation] + is_send[operation]
        after = followers[starts[operation] : starts[operation + 1]]
        if is_send[operation] and other[operation] >= 0:
            after.append(other[operation])
        for follower in after:
            depth[follower] = max(depth[follower], below)
            sends[follower] = max(sends[follower], behind)
            missing[follower] -= 1
            if missing[follower] == 0:
                ready.append(follower)
    return np.array(depth, dtype=np.int64), np.array(sends, dtype=np.int64)


def stands_alone(program: Program, flow: Dataflow) -> BoolArray:
    """Whether a message is stored and no operation at either end waits for it, at both ends, shape (n,)."""
    free = np.diff(program.wait_offset) == 0
    free[program.waits] = False
    alone: BoolArray = free & (flow.partner >= 0) & (program.operation_kind != OperationKind.RECEIVE_REDUCE)
    ends = np.flatnonzero(alone)
    alone[ends] = alone[flow.partner[ends]]
    return alone


def continues(program: Program, flow: Dataflow) -> BoolArray:
    """Whether a message may be joined with the message numbered before it, at both ends, shape (n,).

    Both are stored, in adjacent memory, and come from adjacent memory. Their receives have one turn, so that
    turns still rise if each of them waits for all that the other waits for.
    """
    sends = np.flatnonzero((program.operation_kind == OperationKind.SEND) & (flow.partner >= 0))
    receives = flow.partner[sends]
    order = np.lexsort((flow.number[sends], program.peer[sends], program.operation_rank[sends]))
    sends, receives = sends[order], receives[order]
    same: list[Int64Array | Int32Array] = [
        program.operation_rank[sends],
        program.peer[sends],
        flow.level[sends],
        flow.turn[receives],
        program.source[sends],
        program.target[receives],
    ]
    joins = program.operation_kind[receives[1:]] == OperationKind.RECEIVE
    joins &= program.operation_kind[receives[:-1]] == OperationKind.RECEIVE
    joins &= program.first[sends[1:]] == program.first[sends[:-1]] + program.count[sends[:-1]]
    for column in same:
        joins &= column[1:] == column[:-1]
    return mask_of(program.n_operations, np.concatenate([sends[1:][joins], receives[1:][joins]]))


def requires_copy(program: Program, flow: Dataflow) -> BoolArray:
    """Whether a send must be complete before its receive has started, shape (n,).

    The sends of a program complete without the receiver. A runtime whose sends complete only when the receive
    has started may delay the operations that wait for a send, if they have a later turn than the receive.
    """
    waiting = np.repeat(np.arange(program.n_operations), np.diff(program.wait_offset))
    sends = program.operation_kind[program.waits] == OperationKind.SEND
    send, follower = program.waits[sends], waiting[sends]
    receive = flow.partner[send]
    early = (receive < 0) | (flow.turn[follower] <= flow.turn[receive])
    return mask_of(program.n_operations, send[early])


def packed_together(
    program: Program, flow: Dataflow, rank: int, lengths: Sequence[int], *, longest: int, most: int
) -> list[list[int]]:
    """Return the operations of a rank whose messages are packed into one; both ends find the same.

    Parameters
    ----------
    program : Program
    flow : Dataflow
    rank : int
    lengths : sequence of int
        Length of the data of each operation of the rank, in any unit.
    longest, most : int
        Maximum length of the messages to pack, and of a packed message.

    Returns
    -------
    list of lists of int
        Numbers of operations in the order in which they are packed: two or more, not all empty.
    """
    own = program.operations(rank)
    part = slice(own.start, own.stop)
    is_send = program.operation_kind[part] == OperationKind.SEND
    order = np.lexsort((flow.number[part], flow.level[part], program.peer[part], is_send))
    ends = (is_send, program.peer[part], flow.level[part])
    keys = list(zip(*(column.tolist() for column in ends), strict=True))
    found: list[list[int]] = []
    key, length = None, 0
    for place in order.tolist():
        if keys[place][1] < 0 or lengths[place] > longest:
            continue
        if keys[place] == key and length + lengths[place] <= most:
            found[-1].append(own.start + place)
            length += lengths[place]
        else:
            found.append([own.start + place])
            key, length = keys[place], lengths[place]
    return [
        together
        for together in found
        if len(together) > 1 and any(lengths[operation - own.start] for operation in together)
    ]
