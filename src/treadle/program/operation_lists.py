"""Operations of ranks: sends and receives of chunk ranges in order, with dependences and paths.

The meaning of the buffers is left to `treadle.program.program.Program`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from treadle.arrays import FrozenArrays, Int32Array, Int64Array, check_offsets
from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind


class OperationKind(IntEnum):
    """Kind of an operation on chunks [first, first + count)."""

    SEND = 0
    """Send the chunks of `source` to `peer`; changes nothing here."""
    RECEIVE = 1
    """Store the chunks received from `peer` in `target`."""
    RECEIVE_REDUCE = 2
    """Store (chunks of `source`) + (chunks received from `peer`) in `target`."""
    COPY = 3
    """Copy the chunks of `source` to `target` within the rank; no peer."""


class Buffer(IntEnum):
    """Memory of a rank; every buffer is addressed by global chunk numbers."""

    INPUT = 0
    OUTPUT = 1
    SCRATCH = 2


@dataclass(frozen=True)
class Operation:
    """One explicit operation; `waits` holds positions in the list of the same rank.

    Fields that a kind does not use hold -1 (`peer`, `path`) or repeat the used buffer (`source`, `target`).
    """

    kind: OperationKind
    first: int
    count: int
    peer: int = -1
    source: Buffer = Buffer.INPUT
    target: Buffer = Buffer.OUTPUT
    channel: int = 0
    step: int = 0
    path: int = -1
    waits: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class OperationLists(FrozenArrays):
    """Operations of every rank in a list, with dependences, messages and their paths.

    The common part of `treadle.program.program.Program`, the lists of one collective, and
    `treadle.program.group_lists.GroupLists`, those of concurrent groups; the simulator reads only this.

    **Order.** An operation starts after all operations that it waits for are complete; those are earlier
    operations of the same rank, so the list order is always a legal serial order of a rank. Nothing else
    orders operations, except streams: the i-th SEND from a to b on channel c matches the i-th RECEIVE or
    RECEIVE_REDUCE at b from a on channel c, in list order, and both name the same chunks. Sends are
    buffered: a send completes without waiting for its receive. `step` is metadata (depth in the dataflow).
    The first operation in the list of those that can run should run: lowering chooses an order in which
    links are busy and ranks send to different targets (`treadle.program.trees.send_order`).

    **Paths.** Every SEND names the physical path of its data: links of the fabric from the node of this rank
    to that of the peer, in order, through switches and forwarders. Forwarders have no operations; they only
    appear on paths. A path that begins (or ends) at a switch stands for in-network multicast (aggregation); a
    runtime without it sends from rank to rank. Path -1 is unknown.

    Parameters
    ----------
    kind : CollectiveKind
    nodes : array of int32, shape (N,)
        Node of each rank in the fabric.
    n_chunks : int
        P >= 1: number of equal parts of the larger per-rank buffer of a collective.
    operation_offset : array of int64, shape (N + 1,)
        Operations of rank v are operation_offset[v] up to operation_offset[v + 1], in order.
    operation_kind, peer, channel, step, source, target, path : arrays of int32, shape (n,)
        See `OperationKind`, `Buffer`; peer and path are -1 where unused.
    first, count : arrays of int64, shape (n,)
        Chunk range; count >= 1.
    wait_offset : array of int64, shape (n + 1,)
    waits : array of int64
        Operation i waits for waits[wait_offset[i]:wait_offset[i + 1]]: numbers of operations of the same
        rank, less than i.
    path_offset : array of int64, shape (number of paths + 1,)
    path_links : array of int32
        Links of path p are path_links[path_offset[p]:path_offset[p + 1]].

    Raises
    ------
    ScheduleError
        If shapes or ranges are wrong.
    """

    kind: CollectiveKind
    nodes: Int32Array
    n_chunks: int
    operation_offset: Int64Array
    operation_kind: Int32Array
    peer: Int32Array
    channel: Int32Array
    step: Int32Array
    source: Int32Array
    target: Int32Array
    path: Int32Array
    first: Int64Array
    count: Int64Array
    wait_offset: Int64Array
    waits: Int64Array
    path_offset: Int64Array
    path_links: Int32Array

    def __post_init__(self) -> None:
        self._freeze("program")
        n, total = len(self.nodes), len(self.operation_kind)
        if n < 1 or self.n_chunks < 1:
            raise ScheduleError("program: expected at least 1 rank and 1 chunk")
        check_offsets("program", "operation_offset", self.operation_offset, n, total)
        check_offsets("program", "wait_offset", self.wait_offset, total, len(self.waits))
        check_offsets(
            "program", "path_offset", self.path_offset, len(self.path_offset) - 1, len(self.path_links)
        )
        for key in COLUMNS:
            if len(getattr(self, key)) != total:
                raise ScheduleError(f"program: {key} has {len(getattr(self, key))} values, expected {total}")
        self._check_ranges()

    def _check_ranges(self) -> None:
        for key, low, high in (
            ("operation_kind", 0, len(OperationKind)),
            ("peer", -1, self.n_ranks),
            ("channel", 0, 2**31),
            ("step", 0, 2**31),
            ("source", 0, len(Buffer)),
            ("target", 0, len(Buffer)),
            ("path", -1, self.n_paths),
            ("first", 0, self.n_addresses),
            ("count", 1, self.n_addresses + 1),
        ):
            values = getattr(self, key)
            wrong = np.flatnonzero((values < low) | (values >= high))
            if wrong.size:
                found = values[wrong[0]]
                raise ScheduleError(
                    f"program: operation {wrong[0]}: {key} {found}, expected {low} to {high - 1}"
                )
        if np.any(self.first + self.count > self.n_addresses):
            raise ScheduleError(f"program: a chunk range ends past chunk {self.n_addresses}")
        owner = self.operation_rank
        local = self.operation_kind == OperationKind.COPY
        if np.any(local != (self.peer < 0)) or np.any(self.peer == owner):
            raise ScheduleError("program: every operation except COPY needs a peer other than its own rank")
        waiting = np.repeat(np.arange(self.n_operations), np.diff(self.wait_offset))
        if self.waits.size and (
            self.waits.min() < 0
            or np.any(self.waits >= waiting)
            or np.any(owner[self.waits] != owner[waiting])
        ):
            raise ScheduleError("program: an operation may wait only for earlier operations of its rank")

    @property
    def n_addresses(self) -> int:
        """One more than the largest chunk number."""
        return self.n_chunks

    @property
    def n_ranks(self) -> int:
        """Number of ranks N."""
        return len(self.nodes)

    @property
    def n_operations(self) -> int:
        """Number of operations of all ranks."""
        return len(self.operation_kind)

    @property
    def n_paths(self) -> int:
        """Number of physical paths."""
        return len(self.path_offset) - 1

    @cached_property
    def operation_rank(self) -> Int32Array:
        """Rank of every operation, shape (n,)."""
        return np.repeat(np.arange(self.n_ranks, dtype=np.int32), np.diff(self.operation_offset))

    @property
    def n_channels(self) -> int:
        """One more than the largest channel."""
        return int(self.channel.max(initial=0)) + 1

    def operations(self, rank: int) -> range:
        """Return the numbers of the operations of `rank`, in order."""
        return range(int(self.operation_offset[rank]), int(self.operation_offset[rank + 1]))

    def waits_of(self, operation: int) -> Int64Array:
        """Return the numbers of the operations that `operation` waits for."""
        return self.waits[int(self.wait_offset[operation]) : int(self.wait_offset[operation + 1])]

    def links(self, path: int) -> Int32Array:
        """Return the links of a physical path, in order."""
        return self.path_links[int(self.path_offset[path]) : int(self.path_offset[path + 1])]


COLUMNS = ("peer", "channel", "step", "source", "target", "path", "first", "count")
"""Fields of every operation, except its kind and waits."""
