"""Trees to programs, of all ranks or of one: a send and a receive for every path entry of every tree edge.

Trees become a table of transfers (`transfers`); adjacent ones join into messages, get the common order of all
ranks, and are cut where the buffers that they read or write change; then each rank has its list.
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
from treadle.schedules.collective import Collective, CollectiveKind, check_membership
from treadle.schedules.trees.forest import TreeSchedule
from treadle.topologies.topology import Topology

_ALIKE = (WAVE, PHASE, CHILD, SENDER, RECEIVER, CHANNEL, PATH)
"""What transfers of one message have in common."""

Part = tuple[int, int, int, int, int]
"""Of a transfer: its first chunk, one past the last; what is read at the sender, added to and written."""


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
    """Turn trees into a program.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        On `topology`; of the schedule's kind and number of ranks.
    schedule : TreeSchedule
        Explicit or factored. Verified by the caller; only its form is checked here.
    rank : int, optional
        Make the list of this rank only, from its roles in the trees; all other ranks' lists are empty. Time
        and memory are those of the roles. The parts of all ranks, made apart, fit together.
    channels : int
        Independent streams between two ranks: the trees of a root are assigned to so many channels in turn.
    in_place : bool
        INPUT and OUTPUT are one memory.
    merge : bool
        Send adjacent chunk ranges of different trees as one where rank pair, path, channel, depth and
        buffers agree. Parts of single ranks always do.

    Returns
    -------
    Program
        n_chunks is the smallest number of equal chunks whose bounds include those of all trees and path
        entries, as far as the trees' form tells.

    Raises
    ------
    ScheduleError
        If the schedule does not fit the collective, a tree is malformed, or there is no such rank.
    InfeasibleError
        If the trees' shares have no common measure of a size that programs can have.

    Notes
    -----
    Out-trees: the root sends, a child receives and then forwards. In-trees: a rank sends after its own
    receive-reduces, which run one after the other, the child of the least height first; sums are kept in
    OUTPUT where the rank has one for the chunk, else in SCRATCH. A transfer's wave is the earliest step at
    which its data can be there; all ranks list their operations by wave, so the lists are a common linear
    order that respects every dependence and stream: no deadlock. Dependences are the read-after-write,
    write-after-read and write-after-write pairs of each rank's list, so no two operations race.

    Within a wave, what has the longest way to go comes first, then turns decide (`send_order`): who is sent
    to, or, where data flow towards a root, for whom; without turns where there is one root only.

    One rank's part: waves are depths (`transfers.transfers_at`), and how far a tree goes on below an edge its
    ends do not know. So the i-th send of a stream meets the i-th receive here too. Where a message holds
    chunks to which a rank has added and others to which it has not, a part copies the others to the
    accumulator first, which no other rank sees; the whole, which knows both ends, cuts the message instead.

    A path that begins (ends) at a switch stands for a copy (a sum) made in the network. Programs are point to
    point: its edge becomes a send from rank to rank like any other, so the data are right in every runtime,
    but the switch's capability is not used and the schedule's throughput is not what they move.
    `treadle.program.in_network.in_network_sends` tells which sends these are.

    O(transfers x chunks per transfer) after sorting.
    """
    _check_fit(topology, collective, schedule)
    if channels < 1:
        raise ScheduleError(f"channels: expected at least 1, found {channels}")
    if rank is None:
        transfers = all_transfers(topology, schedule, channels)
        n_chunks = int(transfers.base[-1])
        if n_chunks > MAX_CHUNKS:
            raise InfeasibleError(
                f"the trees' shares need {n_chunks} equal chunks of the data, programs have up to "
                f"{MAX_CHUNKS}; solve with fewer trees (--trees or --max-trees, not --exact)"
            )
    else:
        transfers = transfers_at(topology, schedule, rank, channels)
    frame = LoweringFrame(collective, transfers.base, in_place, rank)
    table = message_table(topology, frame, transfers, merge=merge or rank is not None)
    return program_of(frame, _lists(frame, table), transfers)


def _check_fit(topology: Topology, collective: Collective, schedule: TreeSchedule) -> None:
    check_membership(topology, collective)
    if schedule.kind is not collective.kind:
        raise ScheduleError(f"the schedule is for {schedule.kind}, the collective is {collective.kind}")
    units = schedule.root_multiplicity.tolist()
    if len(units) != collective.n_ranks:
        raise ScheduleError(f"the schedule has {len(units)} ranks, the collective {collective.n_ranks}")
    whole = sum(units)
    if whole < 1:
        raise ScheduleError("the schedule has no trees")
    if collective.kind is not CollectiveKind.ALLREDUCE:
        weights, total = collective.shard_weights, sum(collective.shard_weights)
        for rank, (r, weight) in enumerate(zip(units, weights, strict=True)):
            if r * total != weight * whole:
                raise ScheduleError(
                    f"rank {rank} has {r} of {whole} units, expected the share {weight}/{total}"
                )


@dataclass(frozen=True)
class LoweringFrame:
    """Where the data of a collective lie, and whose lists are made: one rank's, or (None) all."""

    collective: Collective
    shard_offset: Int64Array
    in_place: bool
    rank: int | None

    @property
    def reduces(self) -> bool:
        """Whether sums are made."""
        return self.collective.kind.reduces

    def owns(self, rank: int, chunk: int) -> bool:
        """Whether `chunk` is of the shard of `rank`."""
        return bool(self.shard_offset[rank] <= chunk < self.shard_offset[rank + 1])

    def accumulator(self, rank: int, chunk: int) -> Buffer:
        """Buffer in which `rank` sums `chunk`."""
        everywhere = self.collective.kind is CollectiveKind.ALLREDUCE
        return Buffer.OUTPUT if everywhere or self.owns(rank, chunk) else Buffer.SCRATCH


def message_table(
    topology: Topology, frame: LoweringFrame, transfers: Transfers, *, merge: bool = True
) -> Int64Array:
    """Transfers as messages in the common order of all ranks, shape (fields, messages)."""
    return _ordered(topology, frame, _merged(transfers.table) if merge else transfers.table)


def _merged(table: Int64Array) -> Int64Array:
    """Join transfers that differ in nothing but adjacent ranges of chunks; the longest way to go counts."""
    table = table[:, np.lexsort((table[FIRST], *table[list(_ALIKE[::-1])]))]
    keys = table[list(_ALIKE)]
    joined = np.all(keys[:, 1:] == keys[:, :-1], axis=0) & (table[FIRST, 1:] == table[LAST, :-1])
    starts = np.flatnonzero(np.concatenate([[True], ~joined]))
    ends = np.concatenate([starts[1:], [table.shape[1]]]) - 1
    merged = table[:, starts]
    merged[LAST] = table[LAST, ends]
    merged[TO_GO] = np.maximum.reduceat(table[TO_GO], starts)
    return merged


def _ordered(topology: Topology, frame: LoweringFrame, table: Int64Array) -> Int64Array:
    """The common order of all ranks: by wave, the longest way first, then in turns."""
    if not frame.collective.kind.is_rooted:
        root = np.searchsorted(frame.shard_offset, table[FIRST], side="right") - 1
        inwards = (table[PHASE] == 0) & frame.reduces
        turns = turns_of(topology, frame.collective)
        table[TURN] = turns.between(table[SENDER], np.where(inwards, root, table[RECEIVER]))
    keys = table[PATH::-1].copy()
    keys[PATH - TO_GO] *= -1
    ordered: Int64Array = table[:, np.lexsort((table[FIRST], *keys))]
    return ordered


def _lists(frame: LoweringFrame, table: Int64Array) -> list[list[Row]]:
    """The operations of each rank, in order; none of ranks whose lists are not made."""
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
    """Step and parts of each message, in order; puts the copies that they need into the ranks' lists."""
    steps = np.unique(table[WAVE], return_inverse=True)[1].tolist()
    parts = _Sums(frame, table, lists).parts(steps) if frame.reduces else _copied(frame, table)
    yield from zip(steps, parts, strict=True)


def own_copies(frame: LoweringFrame, rank: int) -> list[Row]:
    """The copy of a rank's own shard to its OUTPUT, where nothing else brings it there."""
    first, last = int(frame.shard_offset[rank]), int(frame.shard_offset[rank + 1])
    if frame.reduces or frame.in_place or first == last:
        return []
    return [(OperationKind.COPY, first, last - first, -1, Buffer.INPUT, Buffer.OUTPUT, 0, 0, -1)]


def _copied(frame: LoweringFrame, table: Int64Array) -> Iterator[list[Part]]:
    """Parts of transfers without sums: the owner of a chunk sends it from INPUT."""
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
    """Which chunks each rank has added to; transfers are cut where what they read or write changes.

    A chunk's first child in list order adds to INPUT, and later ones to what is there.
    """

    def __init__(self, frame: LoweringFrame, table: Int64Array, lists: list[list[Row]]) -> None:
        self._frame = frame
        self._lists = lists
        # between two of these bounds all chunks are alike
        cuts = np.unique(np.concatenate([frame.shard_offset, table[FIRST], table[LAST]]))
        self._bounds = cuts.tolist()
        self._owner = np.searchsorted(frame.shard_offset, cuts[:-1], side="right") - 1
        n = len(frame.shard_offset) - 1
        # of a part, one row: what other ranks have begun is not known
        self._row = np.arange(n) if frame.rank is None else np.zeros(n, dtype=np.int64)
        self._begun = np.zeros((int(self._row[-1]) + 1, len(self._owner)), dtype=np.bool_)
        spans = np.searchsorted(cuts, table[[FIRST, LAST]])
        self._columns = np.concatenate([table[[PHASE, SENDER, RECEIVER]], spans]).T.tolist()

    def parts(self, waves: list[int]) -> Iterator[list[Part]]:
        """The parts of each transfer, in order; puts the copies that they need into the rank's list."""
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
        of_sender, of_receiver = self._begun[self._row[sender]], self._begun[self._row[receiver]]
        alike = 2 * of_sender[first:last] + of_receiver[first:last]
        found: list[Part] = []
        for low, past in self._alike(alike, sender, receiver, first, last):
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
        """Copy what is not begun where some is, so that nothing but owners cuts the message."""
        begun = self._begun[0]
        found: list[Part] = []
        for low, past in self._alike(np.zeros(last - first, dtype=np.int64), sender, receiver, first, last):
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

    def _alike(
        self, alike: Int64Array, sender: int, receiver: int, first: int, last: int
    ) -> Iterator[tuple[int, int]]:
        """Ranges of equal values and equal buffers at both ends."""
        if self._frame.collective.kind is not CollectiveKind.ALLREDUCE:
            owner = self._owner[first:last]
            alike = alike + 4 * (owner == receiver) + 8 * (owner == sender)
        return pairwise([first, *(first + 1 + np.flatnonzero(np.diff(alike))).tolist(), last])


def program_of(frame: LoweringFrame, lists: list[list[Row]], transfers: Transfers) -> Program:
    """The program of these lists, with what each operation waits for; paths are those of the transfers."""
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
