"""The runtime-neutral program of a collective: sends, receives and copies of chunk ranges, per rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from treadle.arrays import Int64Array, check_offsets, offsets_of
from treadle.errors import ScheduleError
from treadle.notebook import displayed, own_repr
from treadle.program.operation_lists import COLUMNS, OperationLists
from treadle.program.operation_lists import Buffer as Buffer
from treadle.program.operation_lists import Operation as Operation
from treadle.program.operation_lists import OperationKind as OperationKind
from treadle.schedules.collective import CollectiveKind

MAX_CHUNKS = 2**26
"""Most that lowering makes of a program: runtimes keep a number for each."""


@displayed(own_repr)
@dataclass(frozen=True, eq=False)
class Program(OperationLists):
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

    Order and paths are those of `OperationLists`.

    Parameters
    ----------
    kind, nodes, n_chunks, and all about operations
        As in `OperationLists`.
    root : int
        Rank of the root of broadcast and reduce, else -1.
    shard_offset : array of int64, shape (N + 1,); all-to-all (N * N + 1,)
        From 0 to P; all-to-all: to `n_addresses`.
    in_place : bool

    Raises
    ------
    ScheduleError
        If shapes or ranges are wrong. What its operations mean is not looked at; a run of it shows that.
    """

    root: int
    shard_offset: Int64Array
    in_place: bool

    def __post_init__(self) -> None:
        self._freeze("program")
        n = self.n_ranks
        if n and not (0 <= self.root < n if self.kind.is_rooted else self.root == -1):
            raise ScheduleError(f"program: root {self.root} does not fit {self.kind} of {n} ranks")
        if self.kind is CollectiveKind.ALLTOALL:
            if self.in_place:
                raise ScheduleError("program: an all-to-all cannot be in place")
            total_chunks = int(self.shard_offset[-1]) if len(self.shard_offset) else 0
            check_offsets("program", "shard_offset", self.shard_offset, n * n, total_chunks)
        else:
            check_offsets("program", "shard_offset", self.shard_offset, n, self.n_chunks)
        super().__post_init__()

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
                return self._scratch_ranges(rank)
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

    def named_in_scratch(self, rank: int) -> tuple[Int64Array, Int64Array]:
        """First chunk and number of chunks of each operation of a rank that names SCRATCH."""
        span = slice(int(self.operation_offset[rank]), int(self.operation_offset[rank + 1]))
        named = (self.source[span] == Buffer.SCRATCH) | (self.target[span] == Buffer.SCRATCH)
        return self.first[span][named], self.count[span][named]

    def _scratch_ranges(self, rank: int) -> list[tuple[int, int]]:
        first, count = self.named_in_scratch(rank)
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

    columns: dict[str, Any] = {key: np.array(column(key), dtype=np.int64) for key in COLUMNS}
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
