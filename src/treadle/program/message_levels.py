"""Which messages may travel together: the dataflow of a program, across ranks, in levels."""

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
    """What follows what, within the ranks and from a send to its receive.

    Parameters
    ----------
    partner : array of int64, shape (n,)
        Operation at the other end of a message, -1 for copies and where there is none.
    level : array of int64, shape (n,)
        Most sends on a chain of waits and messages that ends at the send, without it; the same at both ends,
        -1 for copies. A send depends on messages of lower levels only.
    turn : array of int64, shape (n,)
        Rises along every wait and message: first come operations behind fewer sends, then those that end
        shorter chains. What a deadlock holds up has turns and levels of no meaning.
    number : array of int64, shape (n,)
        Of each message among all from the same sender to the same receiver, by level and chunks, the same at
        both ends; -1 for copies.

    Notes
    -----
    Runtimes may let all sends of one level and pair of ranks wait for each other, all receives that continue
    one another too, and what waits for a send that needs no copy until its receive has started. No circle
    arises: nowhere does an operation wait for one that is behind more sends, so all of a circle would be
    behind as many, and hold no send; but what is left then waits for shorter chains only.
    """

    partner: Int64Array
    level: Int64Array
    turn: Int64Array
    number: Int64Array

    def __post_init__(self) -> None:
        self._freeze("dataflow")


def dataflow(program: OperationLists) -> Dataflow:
    """Levels, turns and numbers of all operations; O(n log n) for n operations and waits.

    Examples
    --------
    In a chain 0 -> 1 -> 2 of one chunk the messages have levels 0 and 1; cut into chunks, the first hops of
    all chunks have level 0 and the second hops level 1.
    """
    is_send = program.operation_kind == OperationKind.SEND
    is_copy = program.operation_kind == OperationKind.COPY
    pair, partner = _pairs(program), message_partners(program)
    depth, behind = _longest_chains(program, partner)
    level = np.where(partner >= 0, np.minimum(behind, behind[partner]), behind)  # of the send
    level[is_copy] = -1
    number = np.full(program.n_operations, -1, dtype=np.int64)
    for end in (is_send, ~is_send & ~is_copy):
        places = np.flatnonzero(end)
        # what has no partner comes last, so that it changes no other number
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
    """Return the other end of each message, a stream's i-th send or receive; -1 where there is none."""
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
    """Of chains that end before each operation: the most operations, and the most sends."""
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
    """True for both ends of messages that are stored and that nothing at either end waits for, shape (n,)."""
    free = np.diff(program.wait_offset) == 0
    free[program.waits] = False
    alone: BoolArray = free & (flow.partner >= 0) & (program.operation_kind != OperationKind.RECEIVE_REDUCE)
    ends = np.flatnonzero(alone)
    alone[ends] = alone[flow.partner[ends]]
    return alone


def continues(program: Program, flow: Dataflow) -> BoolArray:
    """True for both ends of messages that may be one with the message numbered before, shape (n,).

    Both are stored, in adjacent memory, and come from adjacent memory. Their receives have one turn, so that
    turns still rise where each of them waits for all that the other waits for.
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
    result = np.zeros(program.n_operations, dtype=np.bool_)
    result[sends[1:][joins]] = result[receives[1:][joins]] = True
    return result


def requires_copy(program: Program, flow: Dataflow) -> BoolArray:
    """True for sends that must be complete before their receive has started, shape (n,).

    A program's sends complete without the receiver. A runtime whose sends are complete only when the receive
    has started may let what waits for a send wait so long, where it has a later turn than the receive.
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
    """Operations of a rank whose messages go in one that is packed of them; both ends find the same.

    Parameters
    ----------
    program : Program
    flow : Dataflow
    rank : int
    lengths : sequence of int
        Of what each of the rank's operations moves, in any unit.
    longest, most : int
        Length of what is packed, and of what it is packed into, at most.

    Returns
    -------
    list of lists of int
        Numbers of operations in the order in which they are packed: two or more, not all empty.
    """
    own = program.operations(rank)
    part = slice(own.start, own.stop)
    is_send = program.operation_kind[part] == OperationKind.SEND
    order = np.lexsort((flow.number[part], flow.level[part], program.peer[part], is_send))
    ends = zip(is_send.tolist(), program.peer[part].tolist(), flow.level[part].tolist(), strict=True)
    keys = list(ends)
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
