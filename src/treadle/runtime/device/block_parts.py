"""Cuts the operations of a program into parts that no operation straddles."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from treadle.arrays import offsets_of
from treadle.program.program import Buffer, Program
from treadle.runtime.order import check_executable


class PartKind(IntEnum):
    """Action of an operation on a part: those of programs, and those by a switch."""

    SEND = 0
    RECEIVE = 1
    RECEIVE_REDUCE = 2
    COPY = 3
    STORE = 4
    """Stores `source` in `target` at all ranks of a group."""
    SUM = 5
    """Stores the sum of `source` at all ranks of a group in `target` here."""
    EXPOSE = 6
    """Lets the partner's SUM read `source`."""
    RECLAIM = 7
    """Waits until it has read `source`."""


@dataclass(frozen=True, slots=True)
class PartOperation:
    """An operation of a program on one part.

    Parameters
    ----------
    partner : int
        The other end of the message (of several that one STORE is, the STORE); of EXPOSE and RECLAIM the SUM;
        else -1.
    path : int
        Of a send, as in the program; else -1.
    group : int
        Of STORE and SUM; else -1.
    waits : tuple of int
        Operations of the same rank and part that come before.
    """

    kind: PartKind
    rank: int
    part: int
    source: Buffer
    target: Buffer
    partner: int
    path: int = -1
    group: int = -1
    waits: tuple[int, ...] = ()


Rewriting = Callable[[list[PartOperation]], list[PartOperation]]
"""Replaces operations without waits, rank by rank, by others that do the same."""


def cut_into_parts(
    program: Program, rewritten: Rewriting | None = None
) -> tuple[list[PartOperation], list[int]]:
    """All operations, cut wherever any operation begins or ends, rank by rank in a legal serial order.

    Slices of an operation can then wait for the same slices of others: both are of the same chunks.
    Dependences are derived again from that order, so that operations of different parts never wait for each
    other.

    Parameters
    ----------
    rewritten : callable, optional
        Leaves some operations to switches.

    Returns
    -------
    operations, bounds
        Part i is chunks bounds[i] to bounds[i + 1] - 1.

    Raises
    ------
    ScheduleError
        If messages do not match, a range does not exist, or the program deadlocks.
    """
    partner, _ = check_executable(program)
    past = program.first + program.count
    ends = np.concatenate([[0, program.n_addresses], program.shard_offset, program.first, past])
    bounds: list[int] = np.unique(ends).tolist()
    begins = [bisect_left(bounds, first) for first in program.first.tolist()]
    stops = [bisect_left(bounds, end) for end in past.tolist()]
    numbers = offsets_of(np.array(stops) - np.array(begins)).tolist()
    kinds, partners, paths = program.operation_kind.tolist(), partner.tolist(), program.path.tolist()
    sources, targets = program.source.tolist(), program.target.tolist()
    found = [
        PartOperation(
            PartKind(kinds[old]),
            rank,
            part,
            Buffer(sources[old]),
            Buffer(targets[old]),
            -1 if partners[old] < 0 else numbers[partners[old]] + part - begins[partners[old]],
            paths[old],
        )
        for rank in range(program.n_ranks)
        for old in program.operations(rank)
        for part in range(begins[old], stops[old])
    ]
    if rewritten is not None:
        found = rewritten(found)
    uses = [(one.rank, one.part, *memories_of(one, in_place=program.in_place)) for one in found]
    return [
        replace(one, waits=tuple(before)) for one, before in zip(found, _waits(uses), strict=True)
    ], bounds


_READS_NOTHING = frozenset({PartKind.RECEIVE})
_WRITES_NOTHING = frozenset({PartKind.SEND, PartKind.EXPOSE, PartKind.RECLAIM})


def memory_of(buffer: Buffer, *, in_place: bool) -> int:
    """The memory that a buffer is: in place, OUTPUT is INPUT's."""
    return int(Buffer.INPUT if in_place and buffer is Buffer.OUTPUT else buffer)


def memories_of(operation: PartOperation, *, in_place: bool) -> tuple[int, int]:
    """Memories that an operation reads and writes at its own rank; -1 for none."""
    reads = -1 if operation.kind in _READS_NOTHING else memory_of(operation.source, in_place=in_place)
    writes = -1 if operation.kind in _WRITES_NOTHING else memory_of(operation.target, in_place=in_place)
    return reads, writes


def _waits(uses: Sequence[tuple[int, int, int, int]]) -> list[list[int]]:
    """Earlier operations of a rank that each one must wait for, of those that use one part and memory.

    A reader waits for the last writer; a writer also for those that have read since. Unlike
    `treadle.program.hazards`, which knows what lowering makes, this takes any reader of any memory.
    """
    writer: dict[tuple[int, int, int], int] = {}
    readers: dict[tuple[int, int, int], list[int]] = {}
    found: list[list[int]] = []
    for place, (rank, part, reads, writes) in enumerate(uses):
        before: set[int] = set()
        for memory in {reads, writes} - {-1}:
            if (rank, part, memory) in writer:
                before.add(writer[rank, part, memory])
        if writes >= 0:
            before.update(readers.pop((rank, part, writes), ()))
            writer[rank, part, writes] = place
        if reads >= 0 and reads != writes:
            readers.setdefault((rank, part, reads), []).append(place)
        found.append(sorted(before))
    return found
