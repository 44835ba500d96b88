"""Passes from programs to equivalent programs: instances, merged messages, split copies, other chunks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

import numpy as np

from treadle.arrays import Int64Array, offsets_of, positions_of
from treadle.errors import ScheduleError
from treadle.program.message_levels import continues, dataflow
from treadle.program.operation_lists import COLUMNS
from treadle.program.program import OperationKind, Program

MAX_INSTANCES = 256
"""Maximum number of instances of a program."""

_COLUMNS = ("operation_kind", *COLUMNS)
_Row = tuple[int, ...]
"""An operation by its columns; the last two are its first chunk and its number of chunks."""


def replicate(program: Program, instances: int) -> Program:
    """Run several instances of a program in parallel, each on its part of every shard.

    More thread blocks, streams or threads then share the work of a link, as MSCCL's instances do.

    Parameters
    ----------
    program : Program
    instances : int
        1 to `MAX_INSTANCES`.

    Returns
    -------
    Program
        With `instances` times the chunks. Part i of a shard is its i-th equal run of chunks, at the positions
        of the shard; instance i of an operation is on channel (old channel) * instances + i.

    Raises
    ------
    ScheduleError
        If `instances` is out of range.

    Notes
    -----
    An operation that spans shards is cut at their bounds, equally at both ends of a message. Instances share
    no chunk, so an operation waits only for operations of its own instance.
    """
    if not 1 <= instances <= MAX_INSTANCES:
        raise ScheduleError(f"instances: expected 1 to {MAX_INSTANCES}, found {instances}")
    if instances == 1:
        return program
    bounds = program.shard_offset

    def copies(row: _Row) -> Iterator[tuple[int, _Row]]:
        kind, peer, channel, step, source, target, path, first, count = row
        inside = bounds[np.searchsorted(bounds, first, side="right") : np.searchsorted(bounds, first + count)]
        for low, past in pairwise([first, *np.unique(inside).tolist(), first + count]):
            shard = int(np.searchsorted(bounds, low, side="right")) - 1
            start, length = int(bounds[shard]), int(bounds[shard + 1] - bounds[shard])
            for i in range(instances):
                chunk, stream = start * instances + i * length + low - start, channel * instances + i
                yield i, (kind, peer, stream, step, source, target, path, chunk, past - low)

    cut = _cut(program, copies)
    return _rebuilt(program, *cut, n_chunks=program.n_chunks * instances, shard_offset=bounds * instances)


def split_copies(program: Program) -> Program:
    """Cut copies at bounds of messages that no message crosses, so that messages stay independent.

    The copy of a rank's shard to its output touches the chunks of all its trees; in parts, the chunks of each
    tree can be moved by themselves.

    Parameters
    ----------
    program : Program

    Returns
    -------
    Program
        Moves the same data; the parts of a copy replace it, in rising order.
    """
    moves = program.operation_kind != OperationKind.COPY
    order = np.argsort(program.first[moves], kind="stable")
    first, past = program.first[moves][order], (program.first + program.count)[moves][order]
    cuts = first[1:][first[1:] >= np.maximum.accumulate(past)[:-1]] if len(order) else first

    def parts(row: _Row) -> Iterator[tuple[int, _Row]]:
        *head, start, count = row
        is_copy = row[0] == OperationKind.COPY
        inside = cuts[(cuts > start) & (cuts < start + count)].tolist() if is_copy else []
        for low, past_ in pairwise([start, *inside, start + count]):
            yield 0, (*head, low, past_ - low)

    cut = _cut(program, parts)
    return _rebuilt(program, *cut, n_chunks=program.n_chunks, shard_offset=program.shard_offset)


def _cut(
    program: Program, parts_of: Callable[[_Row], Iterator[tuple[int, _Row]]]
) -> tuple[list[_Row], list[list[int]], list[int]]:
    """Return rows, waits and number of rows of each rank, with operations cut into parts of instances.

    A part waits for those of its instance with which it shares chunks, or for all of them if none does.
    """
    rows: list[_Row] = []
    waits: list[list[int]] = []
    made: list[dict[int, list[int]]] = []  # of each operation: the rows of each instance
    starts = [0]
    columns = list(zip(*(getattr(program, name).tolist() for name in _COLUMNS), strict=True))
    for number, operation in enumerate(columns):
        earlier = program.waits_of(number).tolist()
        made.append(defaultdict(list))
        for instance, row in parts_of(operation):
            first, past = row[-2], row[-2] + row[-1]
            waits.append([])
            for candidates in (made[old][instance] for old in earlier):
                shared = [i for i in candidates if rows[i][-2] < past and first < rows[i][-2] + rows[i][-1]]
                waits[-1] += shared or candidates
            made[number][instance].append(len(rows))
            rows.append(row)
        starts.append(len(rows))
    return rows, waits, np.diff(np.array(starts)[program.operation_offset]).tolist()


def recut(program: Program, bounds: Int64Array) -> Program:
    """Move the same data in chunks of other sizes.

    Parameters
    ----------
    program : Program
    bounds : array of int64, shape (n_addresses + 1,)
        Chunk c becomes the new chunks bounds[c] to bounds[c + 1]; strictly rising from 0. Buffers with
        equally many chunks must have equally many new chunks.

    Returns
    -------
    Program
        With the same operations in the same order.

    Raises
    ------
    ScheduleError
        If the bounds do not rise.

    Notes
    -----
    Every element keeps its path if the new chunks have one size; only the part of a shard that each old chunk
    is changes, and with it the load of links.
    """
    if len(bounds) != program.n_addresses + 1 or bounds[0] != 0 or np.any(np.diff(bounds) < 1):
        raise ScheduleError(f"new chunks: expected {program.n_addresses + 1} bounds that rise from 0")
    n_chunks = int(bounds[program.n_chunks])
    return replace(
        program,
        n_chunks=n_chunks,
        shard_offset=bounds[program.shard_offset],
        first=bounds[program.first],
        count=bounds[program.first + program.count] - bounds[program.first],
    )


def merge_levels(program: Program) -> Program:
    """Join messages of one level that carry adjacent chunks from and to the same buffers.

    Chunks with the same ends in different steps or on different channels then travel together.

    Parameters
    ----------
    program : Program

    Returns
    -------
    Program
        Every message has its own channel. Steps and paths are those of the first part of a message: this is
        for runtimes, which use neither.

    Notes
    -----
    A message waits for all that its parts wait for: `treadle.program.message_levels.Dataflow` explains why
    this causes no cycle. The lists follow one order of all operations that waits and messages allow.
    """
    flow = dataflow(program)
    follows = continues(program, flow)
    if not follows.any():
        return program
    is_send = program.operation_kind == OperationKind.SEND
    by_number = np.lexsort((flow.number, program.peer, is_send, program.operation_rank))
    begins = np.maximum.accumulate(np.where(follows[by_number], 0, np.arange(len(by_number))))
    head = np.empty_like(by_number)
    head[by_number] = by_number[begins]
    waiting = np.repeat(np.arange(program.n_operations), np.diff(program.wait_offset))
    pairs = np.unique(np.stack([head[program.waits], head[waiting]]), axis=1)
    sends = np.flatnonzero(is_send & ~follows)
    messages = np.stack([sends, flow.partner[sends]])
    order = _legal_order(np.unique(head), np.concatenate([pairs, messages], axis=1))
    order = order[np.argsort(program.operation_rank[order], kind="stable")]
    place = positions_of(program.n_operations, order)
    waits: list[list[int]] = [[] for _ in order]
    for awaited, operation in place[pairs].T.tolist():
        waits[operation].append(awaited)
    joined = replace(
        program,
        channel=np.maximum(flow.number, 0),
        count=np.maximum(1, np.bincount(head, program.count, program.n_operations)).astype(np.int64),
    )
    return _rebuilt(
        program,
        np.stack([getattr(joined, name)[order] for name in _COLUMNS], axis=1).tolist(),
        waits,
        np.bincount(program.operation_rank[order], minlength=program.n_ranks).tolist(),
        n_chunks=program.n_chunks,
        shard_offset=program.shard_offset,
    )


def _legal_order(operations: Int64Array, pairs: Int64Array) -> Int64Array:
    """Return the operations ordered by pairs (earlier, later), and by number if these allow it."""
    followers: dict[int, list[int]] = defaultdict(list)
    missing = dict.fromkeys(operations.tolist(), 0)
    for earlier, later in pairs.T.tolist():
        followers[earlier].append(later)
        missing[later] += 1
    ready = [operation for operation, before in missing.items() if before == 0]
    order: list[int] = []
    while ready:  # a heap
        order.append(heappop(ready))
        for later in followers[order[-1]]:
            missing[later] -= 1
            if missing[later] == 0:
                heappush(ready, later)
    assert len(order) == len(operations)
    return np.array(order, dtype=np.int64)


def _rebuilt(
    program: Program,
    rows: Sequence[Sequence[int]],
    waits: Sequence[Sequence[int]],
    sizes: Sequence[int],
    *,
    n_chunks: int,
    shard_offset: Int64Array,
) -> Program:
    """Return the program with other operations."""
    table = np.array(rows, dtype=np.int64).reshape(-1, len(_COLUMNS)).T
    columns: dict[str, Any] = dict(zip(_COLUMNS, table, strict=True))
    columns["operation_offset"] = offsets_of(sizes)
    columns["wait_offset"] = offsets_of([len(found) for found in waits])
    columns["waits"] = np.array([wait for found in waits for wait in sorted(found)], dtype=np.int64)
    return replace(program, n_chunks=n_chunks, shard_offset=shard_offset, **columns)
