"""The runtime-neutral program: sends, receives and copies of chunk ranges with dependences, per rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from typing import Any

import numpy as np

from treadle.arrays import FrozenArrays, Int32Array, Int64Array, offsets_of
from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind

MAX_CHUNKS = 2**26
"""Most that lowering makes of a program: runtimes keep a number for each."""


class OperationKind(IntEnum):
    """What one operation does with chunks [first, first + count)."""

    SEND = 0
    """Send the chunks of `source` to `peer`; changes nothing here."""
    RECEIVE = 1
    """Store the chunks that come from `peer` in `target`."""
    RECEIVE_REDUCE = 2
    """Store (chunks of `source`) + (chunks that come from `peer`) in `target`."""
    COPY = 3
    """Copy the chunks of `source` to `target` within the rank; no peer."""


class Buffer(IntEnum):
    """Memory of a rank; every buffer is addressed by global chunk numbers."""

    INPUT = 0
    OUTPUT = 1
    SCRATCH = 2


@dataclass(frozen=True)
class Operation:
    """One operation written out; `waits` holds places in the same rank's list.

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
class Program(FrozenArrays):
    """A collective as dataflow; what every runtime, simulator and text format reads.

    **Data.** The collective's larger per-rank buffer of `size` elements is cut into P = `n_chunks` chunks:
    chunk i covers elements floor(i * size / P) to floor((i + 1) * size / P), so any element count works and
    some chunks may be empty. All three buffers are addressed by these global chunk numbers; shard v is chunks
    [shard_offset[v], shard_offset[v + 1]). A buffer that holds some shards only is these shards' elements one
    after another: one that holds shard v alone has chunk c at (first element of c) - (first element of the
    shard). With x_v[c] the contribution of rank v to chunk c and sums over all ranks:

    ==============  =============================  ==========================================
    kind            INPUT of rank v holds          OUTPUT of rank v must hold at the end
    ==============  =============================  ==========================================
    allgather       x_v[c] for c in shard v only   x_u[c] for c in shard u, every u (all P)
    reduce-scatter  x_v[c] for all c               sum_u x_u[c] for c in shard v only
    allreduce       x_v[c] for all c               sum_u x_u[c] for all c
    broadcast       x_root[c], all c, root only    x_root[c] for all c
    reduce          x_v[c] for all c               sum_u x_u[c] for all c, root only
    alltoall        x_v[c] for c in shards (v, *)  x_u[c] for c in shard (u, v), every u
    ==============  =============================  ==========================================

    An all-to-all has a shard for each pair: (u, v) is number u * N + v. Its chunks are as large as the
    others', size / P, but the shards of all ranks together have more than P of them (`n_addresses`).

    What the table does not name does not exist: a rank other than the root has no INPUT in a broadcast and
    no OUTPUT in a reduce. SCRATCH has room for all P chunks (all-to-all: for those that the rank's operations
    name), is undefined at first, and need only exist at ranks where `uses_scratch`. For allreduce
    `shard_offset` says at which rank a chunk's sum is complete first; for broadcast and reduce all chunks are
    the root's shard.

    **In place.** If `in_place`, INPUT and OUTPUT of a rank are one memory: chunk c of either is the same
    elements, wherever both exist. (In an allgather INPUT is shard v within OUTPUT, mirrored for
    reduce-scatter, as in NCCL.) Otherwise no operation writes INPUT. An all-to-all is never in place: what a
    rank sends and what it receives are different chunks.

    **Order.** An operation starts after all operations that it waits for are complete; those are earlier
    operations of the same rank, so the list order is always a legal serial order of a rank. Nothing else
    orders operations, but for streams: the i-th SEND from a to b on channel c matches the i-th RECEIVE or
    RECEIVE_REDUCE at b from a on channel c, in list order, and both name the same chunks. Sends are
    buffered: a send completes without waiting for its receive. `step` is metadata (depth in the dataflow).
    Of operations that could all run, the list's first should: lowering puts them in an order in which links
    are busy and targets taken in turns (`treadle.program.trees.send_order`).

    **Paths.** Every SEND names the physical path of its data: links of the fabric from this rank's node to
    the peer's, in order, through switches and forwarders. Forwarders run no operations of their own here:
    they appear on paths only. A path that begins (or ends) at a switch stands for in-network multicast
    (aggregation); a runtime without it just sends from rank to rank. Path -1: not known.

    Parameters
    ----------
    kind : CollectiveKind
    nodes : array of int32, shape (N,)
        Node of each rank in the fabric.
    root : int
        Rank of the root of broadcast and reduce, else -1.
    n_chunks : int
        P >= 1.
    shard_offset : array of int64, shape (N + 1,); all-to-all (N * N + 1,)
        From 0 to P; all-to-all: to `n_addresses`.
    in_place : bool
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
        If shapes or ranges are wrong. What its operations mean is not looked at; a run of it shows that.
    """

    kind: CollectiveKind
    nodes: Int32Array
    root: int
    n_chunks: int
    shard_offset: Int64Array
    in_place: bool
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
            raise ScheduleError("program: needs at least 1 rank and 1 chunk")
        if not (0 <= self.root < n if self.kind.is_rooted else self.root == -1):
            raise ScheduleError(f"program: root {self.root} does not fit {self.kind} of {n} ranks")
        if self.kind is CollectiveKind.ALLTOALL:
            if self.in_place:
                raise ScheduleError("program: an all-to-all cannot be in place")
            total_chunks = int(self.shard_offset[-1]) if len(self.shard_offset) else 0
            _check_offsets("shard_offset", self.shard_offset, n * n, total_chunks)
        else:
            _check_offsets("shard_offset", self.shard_offset, n, self.n_chunks)
        _check_offsets("operation_offset", self.operation_offset, n, total)
        _check_offsets("wait_offset", self.wait_offset, total, len(self.waits))
        _check_offsets("path_offset", self.path_offset, len(self.path_offset) - 1, len(self.path_links))
        for key in _COLUMNS:
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
            raise ScheduleError("program: every operation but COPY needs a peer other than its own rank")
        waiting = np.repeat(np.arange(self.n_operations), np.diff(self.wait_offset))
        if self.waits.size and (
            self.waits.min() < 0
            or np.any(self.waits >= waiting)
            or np.any(owner[self.waits] != owner[waiting])
        ):
            raise ScheduleError("program: an operation may wait only for earlier operations of its rank")

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

    @property
    def operation_rank(self) -> Int32Array:
        """Rank of every operation, shape (n,)."""
        return np.repeat(np.arange(self.n_ranks, dtype=np.int32), np.diff(self.operation_offset))

    @property
    def n_channels(self) -> int:
        """One more than the largest channel."""
        return int(self.channel.max(initial=0)) + 1

    def operations(self, rank: int) -> range:
        """Numbers of the operations of `rank`, in order."""
        return range(int(self.operation_offset[rank]), int(self.operation_offset[rank + 1]))

    def waits_of(self, operation: int) -> Int64Array:
        """Numbers of the operations that `operation` waits for."""
        return self.waits[int(self.wait_offset[operation]) : int(self.wait_offset[operation + 1])]

    def links(self, path: int) -> Int32Array:
        """Links of a physical path, in order."""
        return self.path_links[int(self.path_offset[path]) : int(self.path_offset[path + 1])]

    @property
    def n_addresses(self) -> int:
        """One more than the largest chunk number: P, but for an all-to-all."""
        return int(self.shard_offset[-1])

    def shard(self, number: int) -> tuple[int, int]:
        """First and one past the last chunk of a rank's shard; all-to-all: of pair (u, v) = u * N + v."""
        return int(self.shard_offset[number]), int(self.shard_offset[number + 1])

    def ranges(self, rank: int, buffer: Buffer) -> list[tuple[int, int]]:
        """Chunks that a buffer of `rank` has, as tabulated above: ranges that rise and do not touch."""
        is_input = buffer is Buffer.INPUT
        if self.kind is CollectiveKind.ALLTOALL:
            if buffer is Buffer.SCRATCH:
                return self._named_in_scratch(rank)
            n = self.n_ranks
            numbers = range(rank * n, rank * n + n) if is_input else range(rank, n * n, n)
            return _joined(self.shard(number) for number in numbers)
        whole = (0, self.n_chunks)
        if buffer is Buffer.SCRATCH:
            return [whole]
        if self.kind is (CollectiveKind.ALLGATHER if is_input else CollectiveKind.REDUCE_SCATTER):
            return _joined([self.shard(rank)])
        if self.kind is (CollectiveKind.BROADCAST if is_input else CollectiveKind.REDUCE):
            return [whole] if rank == self.root else []
        return [whole]

    def _named_in_scratch(self, rank: int) -> list[tuple[int, int]]:
        span = slice(int(self.operation_offset[rank]), int(self.operation_offset[rank + 1]))
        named = (self.source[span] == Buffer.SCRATCH) | (self.target[span] == Buffer.SCRATCH)
        first, count = self.first[span][named], self.count[span][named]
        order = np.argsort(first, kind="stable")
        return _joined(zip(first[order].tolist(), (first + count)[order].tolist(), strict=True))

    def uses_scratch(self, rank: int) -> bool:
        """Whether some operation of `rank` touches SCRATCH."""
        span = slice(int(self.operation_offset[rank]), int(self.operation_offset[rank + 1]))
        return bool(
            np.any(self.source[span] == Buffer.SCRATCH) or np.any(self.target[span] == Buffer.SCRATCH)
        )

    def element(self, chunk: int, size: int) -> int:
        """First element of `chunk` (0 to P) in a buffer of `size` elements.

        Examples
        --------
        Three chunks of ten elements begin at 0, 3 and 6.
        """
        return chunk * size // self.n_chunks

    def __repr__(self) -> str:
        return (
            f"<Program {self.kind}: {self.n_ranks} ranks, {self.n_chunks} chunks, "
            f"{self.n_operations} operations>"
        )


_COLUMNS = ("peer", "channel", "step", "source", "target", "path", "first", "count")


def _check_offsets(key: str, offsets: Int64Array, rows: int, total: int) -> None:
    if (
        not len(offsets)
        or len(offsets) != rows + 1
        or offsets[0] != 0
        or offsets[-1] != total
        or bool(np.any(np.diff(offsets) < 0))
    ):
        raise ScheduleError(f"program: {key} must rise from 0 to {total} in {max(rows, 0) + 1} values")


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges by rising start without empty ones, those that touch or overlap made one."""
    result: list[tuple[int, int]] = []
    for low, high in ranges:
        if result and low <= result[-1][1]:
            result[-1] = result[-1][0], max(high, result[-1][1])
        elif high > low:
            result.append((low, high))
    return result


def program_from_operations(
    kind: CollectiveKind,
    operations: Sequence[Sequence[Operation]],
    *,
    n_chunks: int,
    shard_offset: Sequence[int],
    root: int = -1,
    in_place: bool = False,
    nodes: Sequence[int] | None = None,
    paths: Iterable[Sequence[int]] = (),
) -> Program:
    """Build a program from written-out operations.

    Parameters
    ----------
    kind : CollectiveKind
    operations : sequence over ranks of sequences of Operation
        `waits` count from 0 within the rank.
    n_chunks, shard_offset, root, in_place
        As in `Program`.
    nodes : sequence of int, optional
        Default 0 to N - 1.
    paths : iterable of link sequences
        What `Operation.path` counts.

    Raises
    ------
    ScheduleError
        If the result is malformed.
    """
    sizes = [len(rank) for rank in operations]
    starts = offsets_of(sizes)
    flat = list(chain.from_iterable(operations))
    waits = [
        int(start) + place
        for start, rank in zip(starts, operations, strict=False)
        for operation in rank
        for place in operation.waits
    ]
    links = [tuple(path) for path in paths]

    def column(name: str) -> list[int]:
        return [int(getattr(operation, name)) for operation in flat]

    columns: dict[str, Any] = {key: np.array(column(key), dtype=np.int64) for key in _COLUMNS}
    return Program(
        kind=kind,
        nodes=np.array(range(len(sizes)) if nodes is None else nodes, dtype=np.int32),
        root=root,
        n_chunks=n_chunks,
        shard_offset=np.array(shard_offset, dtype=np.int64),
        in_place=in_place,
        operation_offset=starts.astype(np.int64),
        operation_kind=np.array(column("kind"), dtype=np.int32),
        wait_offset=offsets_of([len(operation.waits) for operation in flat]),
        waits=np.array(waits, dtype=np.int64),
        path_offset=offsets_of([len(path) for path in links]),
        path_links=np.array(list(chain.from_iterable(links)), dtype=np.int32),
        **columns,
    )
