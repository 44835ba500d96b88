"""Dependences of one rank's operations: read after write, write after read, write after write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from treadle.arrays import Int64Array, offsets_of
from treadle.program.program import Buffer, OperationKind

Row = tuple[int, int, int, int, int, int, int, int, int]
"""An operation: the values of `ROW_FIELDS`."""
ROW_FIELDS = ("operation_kind", "first", "count", "peer", "source", "target", "channel", "step", "path")
"""Columns of a program in the order of a row."""


def find_waits(rows: Sequence[Row], *, in_place: bool, reduces: bool) -> list[list[int]]:
    """Return, for each operation of a rank, the earlier ones that it must wait for, in order.

    Parameters
    ----------
    rows : sequence of Row
        In list order.
    in_place : bool
        INPUT and OUTPUT are one memory.
    reduces : bool
        Without sums, data that were read are never overwritten, so readers need not be recorded.

    Notes
    -----
    Per chunk and memory: a reader waits for the last writer; a writer waits for the readers since the
    last writer, or for that writer if there are none. Chunks that no operation separates are followed
    together, so that their number does not matter.
    """
    bounds = sorted({bound for _, first, count, *_ in rows for bound in (first, first + count)})
    part = {bound: number for number, bound in enumerate(bounds)}
    memory = [0, 0 if in_place else 1, 2]
    writers: list[list[int]] = [[-1] * len(bounds) for _ in Buffer]
    readers: list[dict[int, list[int]]] = [{} for _ in Buffer]
    result: list[list[int]] = []
    for place, (kind, first, count, _, source, target, _, _, _) in enumerate(rows):
        span = range(part[first], part[first + count])
        found: set[int] = set()
        if kind != OperationKind.RECEIVE:
            found.update(writers[memory[source]][span.start : span.stop])
        if kind != OperationKind.SEND:
            written, read = writers[memory[target]], readers[memory[target]]
            for chunk in span:
                found.update(read.pop(chunk, (written[chunk],)))
                written[chunk] = place
        is_overwritten = kind == OperationKind.RECEIVE_REDUCE and memory[source] == memory[target]
        if reduces and kind != OperationKind.RECEIVE and not is_overwritten:
            read = readers[memory[source]]
            for chunk in span:
                read.setdefault(chunk, []).append(place)
        found.discard(-1)
        result.append(sorted(found))
    return result


def wait_lists(
    lists: Iterable[Sequence[Row]], *, in_place: bool, reduces: bool
) -> tuple[Int64Array, Int64Array]:
    """Return the waits of all operations by `find_waits`: offsets, and operations."""
    start, counts, waits = 0, list[int](), list[int]()
    for rows in lists:
        for found in find_waits(rows, in_place=in_place, reduces=reduces):
            counts.append(len(found))
            waits += [start + place for place in found]
        start += len(rows)
    return offsets_of(np.array(counts, dtype=np.int64)), np.array(waits, dtype=np.int64)


def pair_lists(waiting: Int64Array, awaited: Int64Array, total: int) -> tuple[Int64Array, Int64Array]:
    """Return the waits of `total` operations from pairs, without repeats: offsets, and operations."""
    pairs = np.unique(waiting * total + awaited)
    return offsets_of(np.bincount(pairs // max(1, total), minlength=total)), pairs % max(1, total)
