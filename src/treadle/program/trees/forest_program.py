"""Lowering of trees to programs, of all ranks or of one: a send and a receive for each entry of each edge.

Trees become a table of transfers (`transfers`). Adjacent transfers are joined to messages, sorted in the
common order of all ranks, and cut where the buffers that they read or write change; then each rank has its
list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from treadle.arrays import Int64Array, offsets_of
from treadle.errors import InfeasibleError, ScheduleError
from treadle.program.hazards import ROW_FIELDS, Row, wait_lists
from treadle.program.program import MAX_CHUNKS, Buffer, OperationKind, Program
from treadle.program.schedule_fit import check_fit
from treadle.program.trees.send_order import turns_of
from treadle.program.trees.transfers import (
    CHANNEL,
    CHILD,
    FIRST,
    LAST,
    PATH,
    PHASE,
    RECEIVER,
    SENDER,
    TO_GO,
    TURN,
    WAVE,
    Transfers,
    all_transfers,
    transfers_at,
)
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.forest import TreeSchedule
from treadle.topologies.topology import Topology

_OF_MESSAGE = (WAVE, PHASE, CHILD, SENDER, RECEIVER, CHANNEL, PATH)
"""Columns that are equal for all transfers of a message."""

Part = tuple[int, int, int, int, int]
"""Part of a transfer: first chunk, one past the last; buffers that are read, added to and written."""


def lower(
    topology: Topology,
    collective: Collective,
    schedule: TreeSchedule,
    *,
    rank: int | None = None,
    channels: int = 1,
    in_place: bool = False,
    merge: bool = True,
) -> Program:
    """Make the program of trees.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        On `topology`; of the schedule's kind and number of ranks.
    schedule : TreeSchedule
        Explicit or factored. Verified by the caller; only its form is checked here.
    rank : int, optional
        Make the list of this rank only, from its roles in the trees; the lists of all other ranks are empty.
        Time and memory are those of the roles. The parts of all ranks fit together.
    channels : int
        Number of independent streams between two ranks; the trees of a root are assigned to them in turn.
    in_place : bool
        INPUT and OUTPUT are one memory.
    merge : bool
        Send adjacent chunk ranges of different trees as one if rank pair, path, channel, depth and buffers
        agree. Programs of single ranks always do.

    Returns
    -------
    Program
        n_chunks is the smallest number of equal chunks whose bounds include those of all trees and path
        entries, as far as the form of the trees shows.

    Raises
    ------
    ScheduleError
        If the schedule does not fit the collective, a tree is malformed, or the rank does not exist.
    InfeasibleError
        If the shares of the trees need more chunks than programs support.

    Notes
    -----
    Out-trees: the root sends, a child receives and then forwards. In-trees: a rank sends after its own
    receive-reduces, which run one after the other, the child of the smallest height first; sums are in
    OUTPUT if the rank has one for the chunk, else in SCRATCH. The wave of a transfer is the earliest step at
    which its data can be available; all ranks list their operations by wave, so the lists are a common linear
    order that respects every dependence and stream, and cannot deadlock. Dependences are the
    read-after-write, write-after-read and write-after-write pairs of each list, so data hazards cannot occur.

    Within a wave, transfers with the most remaining time come first, then turns decide (`send_order`): by
    receiver or, if data flow towards a root, by root; with a single root, turns are not used.

    The program of one rank: waves are depths (`transfers.transfers_at`), as the ends of an edge do not know
    the tree below it. So the i-th send of a stream meets the i-th receive here too. If a message holds chunks
    to which a rank has added and others to which it has not, the program of one rank first copies the others
    to the accumulator, which no other rank sees; a program of all ranks, which knows both ends, cuts the
    message instead.

    A path that begins (ends) at a switch stands for a copy (a sum) made in the network. Programs are point to
    point: its edge becomes a send from rank to rank like any other, so the data are correct in every runtime,
    but the switch operation is not used, and the program does not reach the throughput of the schedule.
    `treadle.program.in_network.in_network_sends` returns these sends.

    O(transfers x chunks per transfer) after sorting.
    """
    check_fit(topology, collective, schedule.kind, len(schedule.root_multiplicity), channels)
    _check_shares(collective, schedule)
    if rank is None:
        transfers = all_transfers(topology, schedule, channels)
        n_chunks = int(transfers.base[-1])
        if n_chunks > MAX_CHUNKS:
            raise InfeasibleError(
                f"the trees' shares need {n_chunks} equal chunks of the data, programs have up to "
                f"{MAX_CHUNKS}; solve with a smaller number of trees (--trees or --max-trees, not --exact)"
            )
    else:
        transfers = transfers_at(topology, schedule, rank, channels)
    frame = LoweringFrame(collective, transfers.base, in_place, rank)
    table = message_table(topology, frame, transfers, merge=merge or rank is not None)
    return program_of(frame, _lists(frame, table), transfers)


def _check_shares(collective: Collective, schedule: TreeSchedule) -> None:
    """Raise ScheduleError unless the trees per root are proportional to the shards."""
    units = schedule.root_multiplicity.tolist()
    if sum(units) < 1:
        raise ScheduleError("the schedule has no trees")
    if collective.kind is CollectiveKind.ALLREDUCE:
        return
    weights, total = collective.shard_weights, sum(collective.shard_weights)
    for rank, (unit, weight) in enumerate(zip(units, weights, strict=True)):
        if unit * total != weight * sum(units):
            raise ScheduleError(
                f"rank {rank} has {unit} of {sum(units)} units, expected the share {weight}/{total}"
            )


@dataclass(frozen=True)
class LoweringFrame:
    """Location of the data of a collective, and the rank whose list is made; None: all lists."""

    collective: Collective
    shard_offset: Int64Array
    in_place: bool
    rank: int | None

    @property
    def reduces(self) -> bool:
        """Whether the collective sums."""
        return self.collective.kind.reduces

    def accumulator(self, rank: int, chunk: int) -> Buffer:
        """Return the buffer in which `rank` sums `chunk`."""
        is_owner = self.shard_offset[rank] <= chunk < self.shard_offset[rank + 1]
        has_output = is_owner or self.collective.kind is CollectiveKind.ALLREDUCE
        return Buffer.OUTPUT if has_output else Buffer.SCRATCH


def message_table(
    topology: Topology, frame: LoweringFrame, transfers: Transfers, *, merge: bool = True
) -> Int64Array:
    """Return transfers as messages in the common order of all ranks, shape (fields, messages).

    The order is by wave, then most remaining time first, then by turns.
    """
    table = _merged(transfers.table) if merge else transfers.table
    if not frame.collective.kind.is_rooted:
        root = np.searchsorted(frame.shard_offset, table[FIRST], side="right") - 1
        inwards = (table[PHASE] == 0) & frame.reduces
        turns = turns_of(topology, frame.collective)
        table[TURN] = turns.between(table[SENDER], np.where(inwards, root, table[RECEIVER]))
    keys = table[PATH::-1].copy()
    keys[PATH - TO_GO] *= -1
    ordered: Int64Array = table[:, np.lexsort((table[FIRST], *keys))]
    return ordered


def _merged(table: Int64Array) -> Int64Array:
    """Join transfers that differ only in adjacent ranges of chunks; the most remaining time counts."""
    table = table[:, np.lexsort((table[FIRST], *table[list(_OF_MESSAGE[::-1])]))]
    keys = table[list(_OF_MESSAGE)]
    joined = np.all(keys[:, 1:] == keys[:, :-1], axis=0) & (table[FIRST, 1:] == table[LAST, :-1])
    starts = np.flatnonzero(np.concatenate([[True], ~joined]))
    merged = table[:, starts]
    merged[LAST] = table[LAST, np.append(starts[1:], table.shape[1]) - 1]
    merged[TO_GO] = np.maximum.reduceat(table[TO_GO], starts)
    return merged


def _lists(frame: LoweringFrame, table: Int64Array) -> list[list[Row]]:
    """Return the operations of each rank, in order; none for ranks whose lists are not made."""
    mine, ranks = frame.rank, frame.collective.n_ranks
    lists = [own_copies(frame, rank) if mine in (None, rank) else [] for rank in range(ranks)]
    columns = table[[PHASE, SENDER, RECEIVER, CHANNEL, PATH]]
    for (phase, sender, receiver, channel, path), (wave, found) in zip(
        columns.T.tolist(), message_parts(frame, table, lists), strict=True
    ):
        kind = OperationKind.RECEIVE_REDUCE if frame.reduces and phase == 0 else OperationKind.RECEIVE
        for first, last, read, sum_from, target in found:
            count = last - first
            if mine in (None, sender):
                lists[sender].append(
                    (OperationKind.SEND, first, count, receiver, read, read, channel, wave, path)
                )
            if mine in (None, receiver):
                lists[receiver].append((kind, first, count, sender, sum_from, target, channel, wave, -1))
    return lists


def message_parts(
    frame: LoweringFrame, table: Int64Array, lists: list[list[Row]]
) -> Iterator[tuple[int, list[Part]]]:
    """Yield the step and the parts of each message, in order; add the copies that they need to the lists."""
    steps = np.unique(table[WAVE], return_inverse=True)[1].tolist()
    parts = _Sums(frame, table, lists).parts(steps) if frame.reduces else _copied(frame, table)
    yield from zip(steps, parts, strict=True)


def own_copies(frame: LoweringFrame, rank: int) -> list[Row]:
    """Return the copy of the own shard of a rank to its OUTPUT, if no message brings it there."""
    first, last = int(frame.shard_offset[rank]), int(frame.shard_offset[rank + 1])
    if frame.reduces or frame.in_place or first == last:
        return []
    return [(OperationKind.COPY, first, last - first, -1, Buffer.INPUT, Buffer.OUTPUT, 0, 0, -1)]


def _copied(frame: LoweringFrame, table: Int64Array) -> Iterator[list[Part]]:
    """Yield the parts of transfers without sums: the owner of a chunk sends it from INPUT."""
    own = frame.shard_offset[table[SENDER]], frame.shard_offset[table[SENDER] + 1]
    bounds = [np.clip(bound, table[FIRST], table[LAST]) for bound in own]
    buffers = (Buffer.OUTPUT, Buffer.INPUT, Buffer.OUTPUT)
    for ends in np.stack([table[FIRST], *bounds, table[LAST]], axis=1).tolist():
        yield [
            (low, past, read, Buffer.OUTPUT, Buffer.OUTPUT)
            for (low, past), read in zip(pairwise(ends), buffers, strict=True)
            if low < past
        ]


class _Sums:
    """The chunks that each rank has added to; transfers are cut where the buffers of their ends change.

    The first child of a chunk in list order adds to INPUT, and later ones to the sum.
    """

    def __init__(self, frame: LoweringFrame, table: Int64Array, lists: list[list[Row]]) -> None:
        self._frame = frame
        self._lists = lists
        # Between two of these bounds all chunks have the same transfers.
        cuts = np.unique(np.concatenate([frame.shard_offset, table[FIRST], table[LAST]]))
        self._bounds = cuts.tolist()
        self._owner = np.searchsorted(frame.shard_offset, cuts[:-1], side="right") - 1
        # A program of one rank has one row, as the sums that other ranks have begun are unknown.
        n_rows = len(frame.shard_offset) - 1 if frame.rank is None else 1
        self._begun = np.zeros((n_rows, len(self._owner)), dtype=np.bool_)
        spans = np.searchsorted(cuts, table[[FIRST, LAST]])
        self._columns = np.concatenate([table[[PHASE, SENDER, RECEIVER]], spans]).T.tolist()

    def parts(self, waves: list[int]) -> Iterator[list[Part]]:
        """Yield the parts of each transfer, in order; add the copies that they need to the list."""
        bounds = self._bounds
        for (phase, sender, receiver, first, last), wave in zip(self._columns, waves, strict=True):
            if phase:
                yield [(bounds[first], bounds[last], Buffer.OUTPUT, Buffer.OUTPUT, Buffer.OUTPUT)]
            elif self._frame.rank is None:
                yield self._cut(sender, receiver, first, last)
            else:
                yield self._levelled(self._frame.rank, sender, receiver, first, last, wave)

    def _cut(self, sender: int, receiver: int, first: int, last: int) -> list[Part]:
        """Cut where either end has begun sums of some chunks and not of others."""
        of_sender, of_receiver = self._begun[sender], self._begun[receiver]
        states = 2 * of_sender[first:last] + of_receiver[first:last]
        found: list[Part] = []
        for low, past in self._ranges(states, sender, receiver, first, last):
            start = self._bounds[low]
            target = self._frame.accumulator(receiver, start)
            read = self._frame.accumulator(sender, start) if of_sender[low] else Buffer.INPUT
            found.append(
                (start, self._bounds[past], read, target if of_receiver[low] else Buffer.INPUT, target)
            )
        of_receiver[first:last] = True
        return found

    def _levelled(
        self, rank: int, sender: int, receiver: int, first: int, last: int, wave: int
    ) -> list[Part]:
        """Copy chunks without a sum next to chunks with one, so that only owners cut the message."""
        begun = self._begun[0]
        found: list[Part] = []
        for low, past in self._ranges(np.zeros(last - first, dtype=np.int64), sender, receiver, first, last):
            target = self._frame.accumulator(rank, self._bounds[low])
            some = bool(begun[low:past].any())
            if some and not (self._frame.in_place and target is Buffer.OUTPUT):
                for cell in (low + np.flatnonzero(~begun[low:past])).tolist():
                    start, end = self._bounds[cell], self._bounds[cell + 1]
                    row = (OperationKind.COPY, start, end - start, -1, Buffer.INPUT, target, 0, wave, -1)
                    self._lists[rank].append(row)
            if some or rank == receiver:
                begun[low:past] = True
            source = target if some else Buffer.INPUT
            found.append((self._bounds[low], self._bounds[past], source, source, target))
        return found

    def _ranges(
        self, states: Int64Array, sender: int, receiver: int, first: int, last: int
    ) -> Iterator[tuple[int, int]]:
        """Return the ranges of equal states and equal buffers at both ends."""
        if self._frame.collective.kind is not CollectiveKind.ALLREDUCE:
            owner = self._owner[first:last]
            states = states + 4 * (owner == receiver) + 8 * (owner == sender)
        return pairwise([first, *(first + 1 + np.flatnonzero(np.diff(states))).tolist(), last])


def program_of(frame: LoweringFrame, lists: list[list[Row]], transfers: Transfers) -> Program:
    """Return the program of these lists, with the waits of each operation and the paths of the transfers."""
    collective = frame.collective
    wait_offset, waits = wait_lists(lists, in_place=frame.in_place, reduces=frame.reduces)
    table = np.array([row for rows in lists for row in rows], dtype=np.int64).reshape(-1, len(ROW_FIELDS)).T
    columns: dict[str, Any] = dict(zip(ROW_FIELDS, table, strict=True))
    return Program(
        kind=collective.kind,
        nodes=np.array(collective.ranks, dtype=np.int32),
        root=-1 if collective.root is None else collective.root,
        n_chunks=int(frame.shard_offset[-1]),
        shard_offset=frame.shard_offset,
        in_place=frame.in_place,
        operation_offset=offsets_of([len(rows) for rows in lists]),
        wait_offset=wait_offset,
        waits=waits,
        path_offset=transfers.path_offset,
        path_links=transfers.path_links.astype(np.int32),
        **columns,
    )
