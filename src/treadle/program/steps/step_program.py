"""The program of a step schedule: messages, the buffers that they use, and what waits for what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from treadle.arrays import BoolArray, Int64Array, mask_of, offsets_of, positions_of
from treadle.errors import InfeasibleError
from treadle.program.hazards import ROW_FIELDS, Row, pair_lists, wait_lists
from treadle.program.operation_lists import COLUMNS
from treadle.program.program import Buffer, OperationKind, Program
from treadle.program.steps.step_chunks import Holdings, Moves
from treadle.schedules.collective import Collective, CollectiveKind


@dataclass(frozen=True, eq=False)
class Frame:
    """Where the data of a collective lies.

    Parameters
    ----------
    collective : Collective
    holdings : Holdings
    n_chunks : int
        Of the program.
    shard_offset : array of int64
        As `Program` has it.
    bounds : array of int64, shape (2, n_pieces)
        First and one past the last chunk of each piece.
    in_place : bool
    targets : array of int64, shape (n_pieces,), optional
        The rank to which each piece goes, where it goes to one only.
    """

    collective: Collective
    holdings: Holdings
    n_chunks: int
    shard_offset: Int64Array
    bounds: Int64Array
    in_place: bool
    targets: Int64Array | None = None

    @property
    def kind(self) -> CollectiveKind:
        """Of the collective."""
        return self.collective.kind

    def sums(self, rank: Int64Array, piece: Int64Array) -> Int64Array:
        """Buffer in which each rank sums each piece."""
        has_output = self.holdings.is_owner(rank, piece) | (self.kind is CollectiveKind.ALLREDUCE)
        return np.where(has_output, Buffer.OUTPUT, Buffer.SCRATCH).astype(np.int64)

    def stored(self, rank: Int64Array, piece: Int64Array) -> Int64Array:
        """Buffer in which each rank stores each piece that comes as it is."""
        if self.targets is None:
            return np.full(len(rank), int(Buffer.OUTPUT))
        return np.where(self.targets[piece] == rank, Buffer.OUTPUT, Buffer.SCRATCH).astype(np.int64)

    def own_copies(self) -> tuple[Int64Array, Int64Array]:
        """Ranks that copy a shard to their OUTPUT because nothing else brings it there, and the shards."""
        n = self.collective.n_ranks
        if self.kind.reduces or self.in_place:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        own = np.arange(n) * (n + 1 if self.kind is CollectiveKind.ALLTOALL else 1)
        has = np.flatnonzero(np.diff(self.shard_offset)[own])
        return has, own[has]


@dataclass(frozen=True, eq=False)
class _Flow:
    """The moves of one phase in the program's order.

    Parameters
    ----------
    moves : Moves
    reduces : bool
    departure, arrival : array of int64, shape (rows,)
        Cell (piece at a rank) that each move reads and the one that it fills.
    buffers : array of int64, shape (3, rows)
        What is read at the sender, added to at the receiver, and written there.
    stores : array of bool, shape (rows,)
        Whether what comes is stored, and not added.
    starts : array of int64
        Rows with which the messages begin.
    """

    moves: Moves
    reduces: bool
    departure: Int64Array
    arrival: Int64Array
    buffers: Int64Array
    stores: BoolArray
    starts: Int64Array

    @property
    def message(self) -> Int64Array:
        """Message of each row, from 0."""
        lengths = np.diff(np.append(self.starts, len(self.moves)))
        return np.repeat(np.arange(len(self.starts)), lengths)


def assemble(
    frame: Frame,
    phases: list[Moves],
    *,
    merge: bool,
    longer_paths: Sequence[tuple[int, ...]] = (),
    turns: Int64Array | None = None,
) -> Program:
    """The program of moves that all have an effect.

    Parameters
    ----------
    frame : Frame
    phases : list of Moves
        In the order in which they run; steps count on from one to the next.
    merge : bool
        Whether moves of different sends may be one message.
    longer_paths : sequence of tuples of int
        Links of the paths that have several.
    turns : array of int64, optional
        Order among such paths of equal length out of one rank; default none.
    """
    lengths = np.array([len(path) for path in longer_paths], dtype=np.int64)
    ranking = np.stack([np.zeros_like(lengths) if turns is None else turns, -lengths])
    flows = [
        _flow(frame, moves, ranking, reduces=frame.kind.reduces and number == 0, merge=merge)
        for number, moves in enumerate(phases)
    ]
    used = np.unique(np.concatenate([moves.path for moves in phases]))
    paths = [longer_paths[-1 - path] if path < 0 else (path,) for path in used.tolist()]
    operations = np.concatenate([*_operations(frame, flows, used)], axis=1)
    # both ends of a message are at its place in every rank's list, after the rank's own copies
    order = np.lexsort((operations[_PLACE], operations[_RANK]))
    columns = operations[:, order]
    operation_offset = offsets_of(np.bincount(columns[_RANK], minlength=frame.collective.n_ranks))
    if _swaps(frame, phases[0]):
        rows: list[Row] = [*map(tuple, columns[[_NAMES.index(name) for name in ROW_FIELDS]].T.tolist())]
        lists = [rows[start:end] for start, end in pairwise(operation_offset.tolist())]
        wait_offset, waits = wait_lists(lists, in_place=frame.in_place, reduces=True)
    else:
        number = positions_of(len(order), order)
        waiting, awaited = _waits(flows)
        wait_offset, waits = pair_lists(number[waiting], number[awaited], len(order))
    return Program(
        kind=frame.kind,
        nodes=np.array(frame.collective.ranks, dtype=np.int32),
        root=-1 if frame.collective.root is None else frame.collective.root,
        n_chunks=frame.n_chunks,
        shard_offset=frame.shard_offset,
        in_place=frame.in_place,
        operation_offset=operation_offset,
        wait_offset=wait_offset,
        waits=waits,
        path_offset=offsets_of(np.array([len(path) for path in paths], dtype=np.int64)),
        path_links=np.array([link for path in paths for link in path], dtype=np.int32),
        **dict(zip(_NAMES[2:], columns[2:], strict=True)),
    )


def _flow(frame: Frame, moves: Moves, ranking: Int64Array, *, reduces: bool, merge: bool) -> _Flow:
    # in a step the longest ways come first, and everybody begins with the rank after its own: in target order
    # all would begin with one rank
    turn = (moves.receiver - moves.sender) % frame.collective.n_ranks
    before = np.tile([[0], [-1]], len(moves))
    before[:, moves.path < 0] = ranking[:, -1 - moves.path[moves.path < 0]]
    message = (moves.path, moves.channel, moves.receiver, moves.sender)
    moves = moves.part(np.lexsort((moves.piece, *message, turn, *before, moves.step)))
    departure = frame.holdings.cells(moves.sender, moves.piece)
    arrival = frame.holdings.cells(moves.receiver, moves.piece)
    stores = np.full(len(moves), not reduces)
    if reduces and _swaps(frame, moves):
        # of each piece that begins anew in a step: the first of what comes, which is stored
        n_steps = int(moves.step.max(initial=0)) + 1
        come = arrival * n_steps + moves.step
        first = np.unique(come, return_index=True)[1]
        stores = np.zeros(len(moves), dtype=np.bool_)
        stores[first] = np.isin(come[first], come[moves.fresh])
        read, added, target = _swapping(frame, moves, departure, arrival, stores)
    elif reduces:
        target = frame.sums(moves.receiver, moves.piece)
        is_first = mask_of(len(moves), np.unique(arrival, return_index=True)[1])
        added = np.where(is_first, Buffer.INPUT, target)
        has_sum = _Last(arrival, arrival).find(departure) >= 0
        read = np.where(has_sum, frame.sums(moves.sender, moves.piece), Buffer.INPUT)
    else:
        added = target = frame.stored(moves.receiver, moves.piece)
        is_own = ~np.bool_(frame.kind.reduces) & frame.holdings.is_owner(moves.sender, moves.piece)
        read = np.where(is_own, Buffer.INPUT, frame.stored(moves.sender, moves.piece))
    buffers = np.stack([read, added, target]).astype(np.int64)
    if frame.in_place and frame.kind.broadcasts:  # one name for one memory lets more moves share a message
        buffers[buffers == Buffer.INPUT] = Buffer.OUTPUT
    starts = _message_starts(frame, moves, np.vstack([buffers, stores]), merge=merge)
    return _Flow(moves, reduces, departure, arrival, buffers, stores, starts)


def _swaps(frame: Frame, moves: Moves) -> bool:
    """Whether ranks may send a sum in the step in which others take its place."""
    return bool(frame.holdings.twins) or bool(moves.fresh.any())


def _swapping(
    frame: Frame, moves: Moves, departure: Int64Array, arrival: Int64Array, stores: BoolArray
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """What is read, added to and written where ranks send sums and take others to them in one step.

    What a step sends is what was there before it, so sums that come in the same step go to other memory: to
    and fro between OUTPUT, which has the last one, and SCRATCH. Both ends of a message keep its place in the
    order of all messages.
    """
    n_steps = int(moves.step.max(initial=0)) + 1
    gone, come = departure * n_steps + moves.step, arrival * n_steps + moves.step
    swaps = np.intersect1d(gone, come)  # rising by cell, then step
    cell = swaps // n_steps

    def swapped(cells: Int64Array, past: Int64Array) -> Int64Array:
        """How often each cell has moved to the other memory before a step."""
        return np.searchsorted(swaps, cells * n_steps + past) - np.searchsorted(cell, cells)

    def memory(cells: Int64Array, past: Int64Array) -> Int64Array:
        left = swapped(cells, np.full(len(cells), n_steps)) - swapped(cells, past)
        return np.where(left % 2, Buffer.SCRATCH, Buffer.OUTPUT).astype(np.int64)

    came = np.unique(come)
    earlier = np.searchsorted(came, gone) - np.searchsorted(came, departure * n_steps)
    read = np.where(earlier > 0, memory(departure, moves.step), Buffer.INPUT)
    target = memory(arrival, moves.step + 1)
    added = target.copy()
    # the first sum of a step goes on from the memory of before, the first of all from the input
    first = np.unique(come, return_index=True)[1]
    has_sum = np.searchsorted(came, come[first]) > np.searchsorted(came, arrival[first] * n_steps)
    before = memory(arrival[first], moves.step[first])
    added[first] = np.where(stores[first], target[first], np.where(has_sum, before, Buffer.INPUT))
    if frame.in_place and np.isin(gone[read == Buffer.INPUT], come[target == Buffer.OUTPUT]).any():
        raise InfeasibleError(
            "this allreduce sends every rank's input while sums come to its place, so that it cannot run in "
            "place"
        )
    return read, added, target


def _message_starts(frame: Frame, moves: Moves, buffers: Int64Array, *, merge: bool) -> Int64Array:
    """Rows that do not go on with the message of the row before."""
    same = [moves.step, moves.sender, moves.receiver, moves.channel, moves.path, *buffers]
    if not merge:
        same.append(moves.send)
    first, end = frame.bounds[:, moves.piece]
    joined = first[1:] == end[:-1]
    for column in same:
        joined &= column[1:] == column[:-1]
    return np.flatnonzero(np.append(np.ones(min(1, len(moves)), dtype=np.bool_), ~joined))


_NAMES = ("rank", "place", "operation_kind", *COLUMNS)
_RANK, _PLACE, _KIND, _PEER, _CHANNEL, _STEP, _SOURCE, _TARGET, _PATH, _FIRST, _COUNT = range(len(_NAMES))
"""Rows of a table of operations."""


def _operations(
    frame: Frame, flows: list[_Flow], used: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """All sends, all receives, both by the number of their message, and the copies; fields by operations."""
    sent: list[Int64Array] = []
    received: list[Int64Array] = []
    n_messages = 0
    for flow in flows:
        ends = np.append(flow.starts[1:], len(flow.moves)) - 1
        moves, (read, added, target) = flow.moves.part(flow.starts), flow.buffers[:, flow.starts]
        stores = flow.stores[flow.starts]
        n = len(moves)
        place = np.arange(n_messages, n_messages + n)
        n_messages += n
        first = frame.bounds[0, moves.piece]
        count = frame.bounds[1, flow.moves.piece[ends]] - first
        kind = np.where(stores, OperationKind.RECEIVE, OperationKind.RECEIVE_REDUCE)
        at_sender = (moves.sender, place, np.full(n, OperationKind.SEND), moves.receiver)
        at_receiver = (moves.receiver, place, kind, moves.sender)
        along = (moves.channel, moves.step)
        path = np.searchsorted(used, moves.path)
        sent.append(np.stack([*at_sender, *along, read, read, path, first, count]))
        received.append(np.stack([*at_receiver, *along, added, target, np.full(n, -1), first, count]))
    ranks, shards = frame.own_copies()
    copies = np.zeros((len(_NAMES), len(ranks)), dtype=np.int64)
    copies[[_RANK, _FIRST]] = ranks, frame.shard_offset[shards]
    copies[_COUNT] = frame.shard_offset[shards + 1] - copies[_FIRST]
    copies[[_PLACE, _PEER, _PATH]] = -1
    copies[_KIND], copies[_SOURCE], copies[_TARGET] = OperationKind.COPY, Buffer.INPUT, Buffer.OUTPUT
    return np.concatenate(sent, axis=1), np.concatenate(received, axis=1), copies


class _Last:
    """The last value given for each key."""

    def __init__(self, keys: Int64Array, values: Int64Array) -> None:
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        is_last = np.append(ordered[1:] != ordered[:-1], np.ones(min(1, len(keys)), dtype=np.bool_))
        self._keys, self._values = ordered[is_last], values[order][is_last]

    def find(self, keys: Int64Array) -> Int64Array:
        """The value of each key, -1 where there is none."""
        if not len(self._keys):
            return np.full(len(keys), -1, dtype=np.int64)
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self._values[place], -1).astype(np.int64)


def _waits(flows: list[_Flow]) -> tuple[Int64Array, Int64Array]:
    """Pairs of operations, the second awaited by the first, numbered as in `_operations`.

    Each piece at a rank: sums follow each other; the send of a sum follows the last; a broadcast send follows
    the receive, or the last sum at home; a broadcast receive follows the send out of the same memory.
    """
    total = sum(len(flow.starts) for flow in flows)
    pairs: list[tuple[Int64Array, Int64Array]] = []
    summed: _Last | None = None
    emptied: _Last | None = None
    before = 0
    for flow in flows:
        send = before + flow.message
        receive = total + send
        before += len(flow.starts)
        arrived = _Last(flow.arrival, receive)
        found = arrived.find(flow.departure)
        if flow.reduces:
            order = np.argsort(flow.arrival, kind="stable")
            again = np.flatnonzero(flow.arrival[order][1:] == flow.arrival[order][:-1])
            pairs.append((receive[order[again + 1]], receive[order[again]]))
            in_output = flow.buffers[0] == Buffer.OUTPUT  # in place, INPUT goes by that name
            summed, emptied = arrived, _Last(flow.departure[in_output], send[in_output])
        elif summed is not None and emptied is not None:
            found = np.where(found < 0, summed.find(flow.departure), found)
            pairs.append((receive, emptied.find(flow.arrival)))
        pairs.append((send, found))
    waiting, awaited = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return waiting[awaited >= 0], awaited[awaited >= 0]
