"""One rank's part of a forest program, from what that rank does in the trees and nothing else.

The parts of all ranks fit together because every choice follows from what both ends of an edge know, see
`lower_rank`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array, offsets_of
from treadle.errors import ScheduleError
from treadle.program.hazards import Row, find_waits
from treadle.program.program import Buffer, OperationKind, Program
from treadle.program.trees.send_order import Turns, turns_of
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.topologies.topology import Topology


@dataclass(frozen=True)
class TreeEdges:
    """Edges of unit trees at one rank, a row for each run of unit trees of a root that share them.

    Parameters
    ----------
    root, first, units : arrays of int64, shape (e,)
        Unit trees first, ..., first + units - 1 of the root.
    peer : array of int64, shape (e,)
        The rank at the other end.
    depth : array of int64, shape (e,)
        Edges between the root and the child's end.
    path_offset, path_links : arrays of int64, int32
        Links of each row's path, as the data take them.
    """

    root: Int64Array
    first: Int64Array
    units: Int64Array
    peer: Int64Array
    depth: Int64Array
    path_offset: Int64Array
    path_links: Int32Array


@dataclass(frozen=True)
class RankPhase:
    """What a rank does in one forest.

    Parameters
    ----------
    reduces : bool
        Data flow towards the roots.
    above : TreeEdges
        To the rank's parents.
    below : TreeEdges
        To its children.
    """

    reduces: bool
    above: TreeEdges
    below: TreeEdges


_KEYS = ("phase", "wave", "turn", "child", "sender", "receiver", "channel", "path", "is_owned")
_PHASE, _WAVE, _TURN, _CHILD, _SENDER, _RECEIVER, _CHANNEL, _PATH, _OWNED = range(len(_KEYS))
_TOWARDS = (_PHASE, _WAVE, _CHILD, _SENDER, _RECEIVER, _CHANNEL, _PATH, _OWNED)
"""What the chunks of one message have in common."""


def lower_rank(
    topology: Topology,
    collective: Collective,
    multiplicity: Int64Array,
    phases: tuple[RankPhase, ...],
    rank: int,
    *,
    grain: int = 1,
    channels: int = 1,
    in_place: bool = False,
) -> Program:
    """The program of one rank; all other ranks' lists are empty.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        On `topology`.
    multiplicity : array of int64, shape (N,)
        Unit trees of each root.
    phases : tuple of RankPhase
        The forests in the order they run.
    rank : int
    grain : int
        Unit trees that are always used together: a chunk. Divides every number of units.
    channels : int
        Streams between two ranks that the unit trees are dealt out to.
    in_place : bool
        INPUT and OUTPUT are one memory.

    Raises
    ------
    ScheduleError
        If `grain` does not divide the units, or channels are fewer than 1.

    Notes
    -----
    What makes the parts of all ranks one program:

    - Unit tree u of root v is in chunk i = u / grain (rounded down) of the p chunks of v, which follow those
      of the roots before v, on channel (v + i c / p) mod c of c channels.
    - A message is a greatest range of adjacent chunks that cross one tree edge at one depth, on one channel
      and path, and are either all or none the shard of the edge's upper end.
    - Ranks list their messages by (forest, depth from the roots, or towards them, turn, child, sender,
      receiver, channel, first chunk): a common linear order that respects every dependence. So the i-th send
      of a stream meets the i-th receive, and nothing deadlocks. Turns are those of `forest.lower`; how far
      a tree goes on below an edge its ends do not know.

    Where a message of a reduction holds chunks to which this rank has added and others to which it has not,
    the others are copied to the accumulator first; no other rank sees that.
    """
    if channels < 1:
        raise ScheduleError(f"channels: expected at least 1, found {channels}")
    if grain < 1 or np.any(multiplicity % grain):
        raise ScheduleError(f"lowering: chunks of {grain} unit trees do not divide the trees per root")
    base = offsets_of(multiplicity // grain)
    paths = _PathTable(phases)
    tables = [
        part
        for number, phase in enumerate(phases)
        for part in _transfers(number, phase, rank, base, grain, channels, paths)
    ]
    keys = np.concatenate([table[0] for table in tables], axis=1)
    spans = np.concatenate([table[1] for table in tables], axis=1)
    inwards = tuple(phase.reduces for phase in phases)
    turns = None if collective.kind.is_rooted else turns_of(topology, collective)
    keys, spans = _messages(keys, spans, turns, base, inwards)
    frame = _Frame(collective, base, rank, in_place)
    rows = _rows(frame, keys, spans, inwards)
    return _program(frame, rows, paths)


class _PathTable:
    """All phases' paths, equal ones once."""

    def __init__(self, phases: tuple[RankPhase, ...]) -> None:
        sides = [side for phase in phases for side in (phase.above, phase.below)]
        lengths = np.concatenate([np.diff(side.path_offset) for side in sides])
        width = int(lengths.max(initial=0))
        padded = np.full((len(lengths), width), -1, dtype=np.int32)
        padded[np.arange(width) < lengths[:, None]] = np.concatenate([side.path_links for side in sides])
        distinct, numbers = np.unique(padded, axis=0, return_inverse=True)
        self._numbers = numbers.reshape(-1).astype(np.int64)
        self._taken = 0
        found = distinct >= 0
        self.offset = offsets_of(found.sum(axis=1))
        self.links: NDArray[np.int32] = distinct[found]

    def take(self, count: int) -> Int64Array:
        """Numbers of the next paths, in the order of the phases and their sides."""
        self._taken += count
        return self._numbers[self._taken - count : self._taken]


def _transfers(
    number: int,
    phase: RankPhase,
    rank: int,
    base: Int64Array,
    grain: int,
    channels: int,
    paths: _PathTable,
) -> list[tuple[Int64Array, Int64Array]]:
    """Keys and chunk ranges of a phase's transfers: above the rank, then below it."""
    found = []
    for edges, is_above in ((phase.above, True), (phase.below, False)):
        path = paths.take(len(edges.root))
        if np.any(edges.first % grain) or np.any(edges.units % grain):
            raise ScheduleError(f"lowering: an edge does not carry whole chunks of {grain} unit trees")
        row, first, last = _cut_by_channel(
            edges.root, edges.first // grain, (edges.first + edges.units) // grain, base, channels
        )
        keys = np.zeros((len(_KEYS), len(row)), dtype=np.int64)
        keys[_PHASE] = number
        keys[_WAVE] = -edges.depth[row] if phase.reduces else edges.depth[row]
        parent = edges.peer[row] if is_above else np.full(len(row), rank)
        child = np.full(len(row), rank) if is_above else edges.peer[row]
        keys[_CHILD] = child
        keys[_SENDER], keys[_RECEIVER] = (child, parent) if phase.reduces else (parent, child)
        keys[_CHANNEL] = _channel(edges.root[row], first, base, channels)
        keys[_PATH] = path[row]
        keys[_OWNED] = edges.root[row] == parent
        start = base[edges.root[row]]
        found.append((keys, np.stack([start + first, start + last])))
    return found


def _channel(root: Int64Array, chunk: Int64Array, base: Int64Array, channels: int) -> Int64Array:
    """Channel of a chunk of a root, counted from the root's first."""
    return (root + chunk * channels // (base[root + 1] - base[root])) % channels


def _cut_by_channel(
    root: Int64Array, first: Int64Array, last: Int64Array, base: Int64Array, channels: int
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Ranges of chunks cut where the channel changes: row, first and one past the last chunk."""
    if channels == 1:
        return np.arange(len(root)), first, last
    total = (base[root + 1] - base[root])[:, None]
    # chunk i is in part i c / p, so part j begins at the ceiling of j p / c
    starts = -(-np.arange(channels) * total // channels)
    ends = np.concatenate([starts[:, 1:], total], axis=1)
    low = np.maximum(starts, first[:, None])
    high = np.minimum(ends, last[:, None])
    row, part = np.nonzero(high > low)
    return row, low[row, part], high[row, part]


def _messages(
    keys: Int64Array, spans: Int64Array, turns: Turns | None, base: Int64Array, inwards: tuple[bool, ...]
) -> tuple[Int64Array, Int64Array]:
    """Adjacent ranges of equal keys joined, in the common order of all ranks; `turns` where they count.

    Path numbers are a rank's own, so they take no part in the order.
    """
    if not keys.size:
        return keys, spans
    order = np.lexsort((spans[0], *keys[list(_TOWARDS[::-1])]))
    keys, spans = keys[:, order], spans[:, order]
    joined = np.all(keys[:, 1:] == keys[:, :-1], axis=0) & (spans[0, 1:] == spans[1, :-1])
    starts = np.flatnonzero(np.concatenate([[True], ~joined]))
    ends = np.concatenate([starts[1:], [keys.shape[1]]]) - 1
    keys, spans = keys[:, starts], np.stack([spans[0, starts], spans[1, ends]])
    if turns is not None:
        root = np.searchsorted(base, spans[0], side="right") - 1
        target = np.where(np.array(inwards)[keys[_PHASE]], root, keys[_RECEIVER])
        keys[_TURN] = turns.between(keys[_SENDER], target)
    order = np.lexsort((spans[0], *keys[_CHANNEL::-1]))
    return keys[:, order], spans[:, order]


@dataclass(frozen=True)
class _Frame:
    """Where the rank's data lie."""

    collective: Collective
    shard_offset: Int64Array
    rank: int
    in_place: bool

    def accumulator(self, is_owned_here: bool) -> Buffer:
        """Buffer in which the rank sums chunks that end at it, or others."""
        everywhere = self.collective.kind is CollectiveKind.ALLREDUCE
        return Buffer.OUTPUT if everywhere or is_owned_here else Buffer.SCRATCH


def _rows(frame: _Frame, keys: Int64Array, spans: Int64Array, reduces: tuple[bool, ...]) -> list[Row]:
    """The rank's operations in order."""
    first, last = (int(bound) for bound in frame.shard_offset[frame.rank : frame.rank + 2])
    rows: list[Row] = []
    if not (frame.collective.kind.reduces or frame.in_place or first == last):
        rows.append((OperationKind.COPY, first, last - first, -1, Buffer.INPUT, Buffer.OUTPUT, 0, 0, -1))
    steps = _steps(keys)
    sums = _Sums(frame, spans)
    for key, (low, high), step in zip(keys.T.tolist(), spans.T.tolist(), steps, strict=True):
        sender, receiver, channel, path = key[_SENDER], key[_RECEIVER], key[_CHANNEL], key[_PATH]
        is_send, count = sender == frame.rank, high - low
        if reduces[key[_PHASE]]:
            rows += sums.add(
                low, high, is_send, bool(key[_OWNED]), receiver if is_send else sender, channel, step, path
            )
            continue
        peer = receiver if is_send else sender
        if is_send:
            # the root of an allgather or a broadcast has its own data in INPUT
            is_own = bool(key[_OWNED]) and not frame.collective.kind.reduces
            source = Buffer.INPUT if is_own else Buffer.OUTPUT
            rows.append((OperationKind.SEND, low, count, peer, source, source, channel, step, path))
        else:
            output = Buffer.OUTPUT
            rows.append((OperationKind.RECEIVE, low, count, peer, output, output, channel, step, -1))
    return rows


def _steps(keys: Int64Array) -> list[int]:
    """Waves of the rank's phases numbered through from 0."""
    waves = keys[[_PHASE, _WAVE]]
    is_new = np.any(waves[:, 1:] != waves[:, :-1], axis=0)
    return [0, *np.cumsum(is_new).tolist()][: keys.shape[1]]


class _Sums:
    """Which chunks the rank has added to, and the operations that reduce them."""

    def __init__(self, frame: _Frame, spans: Int64Array) -> None:
        self._frame = frame
        self._bounds = np.unique(spans)
        self._is_begun = np.zeros(len(self._bounds), dtype=bool)

    def add(
        self,
        low: int,
        high: int,
        is_send: bool,
        is_owned_above: bool,
        peer: int,
        channel: int,
        step: int,
        path: int,
    ) -> list[Row]:
        """A message to the parent, or from a child, with the copies that it needs."""
        sum_buffer = self._frame.accumulator(is_owned_above and not is_send)
        cells = slice(*np.searchsorted(self._bounds, (low, high)).tolist())
        begun = self._is_begun[cells]
        source = sum_buffer if begun.any() else Buffer.INPUT
        rows: list[Row] = []
        if begun.any() and not begun.all():
            rows = self._copies(cells, sum_buffer, step)
        if is_send:
            return [*rows, (OperationKind.SEND, low, high - low, peer, source, source, channel, step, path)]
        self._is_begun[cells] = True
        kind = OperationKind.RECEIVE_REDUCE
        return [*rows, (kind, low, high - low, peer, source, sum_buffer, channel, step, -1)]

    def _copies(self, cells: slice, sum_buffer: Buffer, step: int) -> list[Row]:
        """INPUT to the accumulator where nothing was added yet."""
        if self._frame.in_place and sum_buffer is Buffer.OUTPUT:
            return []
        rows: list[Row] = []
        for cell in np.flatnonzero(~self._is_begun[cells]).tolist():
            low, high = (int(bound) for bound in self._bounds[cells.start + cell : cells.start + cell + 2])
            rows.append((OperationKind.COPY, low, high - low, -1, Buffer.INPUT, sum_buffer, 0, step, -1))
        self._is_begun[cells] = True
        return rows


def _program(frame: _Frame, rows: list[Row], paths: _PathTable) -> Program:
    collective, n_chunks = frame.collective, int(frame.shard_offset[-1])
    n = collective.n_ranks
    if not rows:
        raise ScheduleError(f"lowering: rank {frame.rank} is in no tree")
    columns = np.array(rows, dtype=np.int64).T
    kinds, first, count, peer, source, target, channel, step, path = columns
    waits = find_waits(rows, in_place=frame.in_place, reduces=collective.kind.reduces)
    operation_offset = np.zeros(n + 1, dtype=np.int64)
    operation_offset[frame.rank + 1 :] = len(rows)
    return Program(
        kind=collective.kind,
        nodes=np.array(collective.ranks, dtype=np.int32),
        root=-1 if collective.root is None else collective.root,
        n_chunks=n_chunks,
        shard_offset=frame.shard_offset,
        in_place=frame.in_place,
        operation_offset=operation_offset,
        operation_kind=kinds.astype(np.int32),
        peer=peer.astype(np.int32),
        channel=channel.astype(np.int32),
        step=step.astype(np.int32),
        source=source.astype(np.int32),
        target=target.astype(np.int32),
        path=path.astype(np.int32),
        first=first,
        count=count,
        wait_offset=offsets_of([len(found) for found in waits]),
        waits=np.array([place for found in waits for place in found], dtype=np.int64),
        path_offset=paths.offset,
        path_links=paths.links,
    )
