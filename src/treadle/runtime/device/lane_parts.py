"""Cuts the operations of a program into parts that no operation straddles."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.arrays import offsets_of
from treadle.program.program import Buffer, OperationKind, Program
from treadle.runtime.order import check_extents, execution_order, match_messages


@dataclass(frozen=True, slots=True)
class PartOperation:
    """An operation of a program on one part.

    Parameters
    ----------
    kind : OperationKind
    rank, part : int
    source, target : Buffer
    partner : int
        The other end of the message; -1 of a copy.
    waits : tuple of int
        Operations of the same rank and part that come before.
    """

    kind: OperationKind
    rank: int
    part: int
    source: Buffer
    target: Buffer
    partner: int
    waits: tuple[int, ...]


def cut_into_parts(program: Program) -> tuple[list[PartOperation], list[int]]:
    """All operations, cut wherever any operation begins or ends, rank by rank in a legal serial order.

    Slices of an operation can then wait for the same slices of others: both are of the same chunks.
    Dependences are found anew from that order, so that operations of different parts never wait for each
    other.

    Parameters
    ----------
    program : Program

    Returns
    -------
    operations, bounds
        Part i is chunks bounds[i] to bounds[i + 1] - 1.

    Raises
    ------
    ScheduleError
        If messages do not match, a range does not exist, or the program deadlocks.
    """
    check_extents(program)
    partner = match_messages(program)
    execution_order(program, partner)
    past = program.first + program.count
    ends = np.concatenate([[0, program.n_addresses], program.shard_offset, program.first, past])
    bounds: list[int] = np.unique(ends).tolist()
    begins = [bisect_left(bounds, first) for first in program.first.tolist()]
    stops = [bisect_left(bounds, end) for end in past.tolist()]
    numbers = offsets_of(np.array(stops) - np.array(begins)).tolist()
    kinds, partners = program.operation_kind.tolist(), partner.tolist()
    sources, targets = program.source.tolist(), program.target.tolist()
    found: list[PartOperation] = []
    for rank in range(program.n_ranks):
        base = len(found)
        own = [(old, part) for old in program.operations(rank) for part in range(begins[old], stops[old])]
        uses = [(part, *_memories(program, kinds[old], sources[old], targets[old])) for old, part in own]
        waits = _waits(uses)
        for (old, part), before in zip(own, waits, strict=True):
            other = partners[old]
            found.append(
                PartOperation(
                    OperationKind(kinds[old]),
                    rank,
                    part,
                    Buffer(sources[old]),
                    Buffer(targets[old]),
                    -1 if other < 0 else numbers[other] + part - begins[old],
                    tuple(base + place for place in before),
                )
            )
    return found, bounds


def _memories(program: Program, kind: int, source: int, target: int) -> tuple[int, int]:
    """What an operation reads and writes: memories, -1 for none."""
    same = {Buffer.OUTPUT: Buffer.INPUT} if program.in_place else {}
    reads = -1 if kind == OperationKind.RECEIVE else same.get(Buffer(source), source)
    writes = -1 if kind == OperationKind.SEND else same.get(Buffer(target), target)
    return int(reads), int(writes)


def _waits(uses: Sequence[tuple[int, int, int]]) -> list[list[int]]:
    """Earlier operations of a rank that each one must wait for, of those that use one part and memory.

    A reader waits for the last writer; a writer also for those that have read since. Unlike
    `treadle.program.hazards`, which knows what lowering makes, this takes any reader of any memory.
    """
    writer: dict[tuple[int, int], int] = {}
    readers: dict[tuple[int, int], list[int]] = {}
    found: list[list[int]] = []
    for place, (part, reads, writes) in enumerate(uses):
        before: set[int] = set()
        for memory in {reads, writes} - {-1}:
            if (part, memory) in writer:
                before.add(writer[part, memory])
        if writes >= 0:
            before.update(readers.pop((part, writes), ()))
            writer[part, writes] = place
        if reads >= 0 and reads != writes:
            readers.setdefault((part, reads), []).append(place)
        found.append(sorted(before))
    return found
