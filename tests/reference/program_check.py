"""The static checks of programs in plain Python: chunk by chunk, ancestors as bit sets."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from treadle.program.program import Buffer, OperationKind, Program

_Stream = tuple[int, int, int]


def check_program(program: Program) -> tuple[str, ...]:
    """Every way in which a program breaks the rules of `Program`; empty if it keeps them.

    Checked: each stream's sends and receives match one to one and name the same chunks; every range lies
    within the buffer as the collective defines it, and INPUT is not written unless in place; two operations
    of a rank that touch the same chunk of the same memory, one of them writing, are ordered by dependences;
    nothing is read before it is there;
    sends (buffered), streams and dependences form no cycle.

    What the data become is not checked here; run the program for that.

    Notes
    -----
    Ancestors are kept as bit sets: O(n**2 / 64) per rank of n operations.
    """
    streams = _streams(program)
    violations = [*_mismatches(program, streams), *_range_errors(program)]
    for rank in range(program.n_ranks):
        violations.extend(_races(program, rank))
    violations.extend(_cycle(program, streams))
    return tuple(violations)


def _streams(program: Program) -> dict[_Stream, tuple[list[int], list[int]]]:
    """Sends and receives of each (from, to, channel), in list order."""
    streams: dict[_Stream, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    owner, kinds = program.operation_rank.tolist(), program.operation_kind.tolist()
    peers, channels = program.peer.tolist(), program.channel.tolist()
    for number, kind in enumerate(kinds):
        if kind == OperationKind.SEND:
            streams[owner[number], peers[number], channels[number]][0].append(number)
        elif kind != OperationKind.COPY:
            streams[peers[number], owner[number], channels[number]][1].append(number)
    return streams


def _mismatches(program: Program, streams: dict[_Stream, tuple[list[int], list[int]]]) -> list[str]:
    found = []
    for (sender, receiver, channel), (sends, receives) in streams.items():
        name = f"stream {sender}->{receiver} channel {channel}"
        if len(sends) != len(receives):
            found.append(f"{name}: {len(sends)} sends, {len(receives)} receives")
        for place, (send, receive) in enumerate(zip(sends, receives, strict=False)):
            sent, taken = ((int(program.first[i]), int(program.count[i])) for i in (send, receive))
            if sent != taken:
                found.append(
                    f"{name}: message {place} sends chunks {_range(*sent)}, receives {_range(*taken)}"
                )
    return found


def _range_errors(program: Program) -> list[str]:
    found = []
    for rank in range(program.n_ranks):
        ranges = {buffer: program.ranges(rank, buffer) for buffer in Buffer}
        for number in program.operations(rank):
            kind = program.operation_kind[number]
            first = int(program.first[number])
            last = first + int(program.count[number])
            used = []
            if kind != OperationKind.RECEIVE:
                used.append(Buffer(program.source[number]))
            if kind != OperationKind.SEND:
                used.append(Buffer(program.target[number]))
                if used[-1] is Buffer.INPUT and not program.in_place:
                    found.append(f"rank {rank}: operation {number} writes INPUT out of place")
            for buffer in used:
                if not any(low <= first < last <= high for low, high in ranges[buffer]):
                    has = ", ".join(_range(low, high - low) for low, high in ranges[buffer]) or "none"
                    found.append(
                        f"rank {rank}: operation {number} uses {buffer.name} chunks "
                        f"{_range(first, last - first)}, which has {has}"
                    )
    return found


def _races(program: Program, rank: int) -> list[str]:
    """Conflicting accesses in list order that no chain of dependences orders, and reads of what is not there.

    Without races, what the list order finds in memory every other order finds there.
    """
    found: list[str] = []
    start = program.operations(rank).start
    ancestors: list[int] = []
    writers: dict[tuple[int, int], int] = {}
    readers: dict[tuple[int, int], list[int]] = defaultdict(list)
    held_in = Buffer.OUTPUT if program.in_place else Buffer.INPUT
    own_input = [range(*span) for span in program.ranges(rank, Buffer.INPUT)]
    for number in program.operations(rank):
        before = 0
        for wait in program.waits_of(number).tolist():
            before |= ancestors[wait - start] | 1 << (wait - start)
        ancestors.append(before)
        kind = program.operation_kind[number]
        source, target = (
            Buffer.OUTPUT if program.in_place and buffer == Buffer.INPUT else buffer
            for buffer in (int(program.source[number]), int(program.target[number]))
        )
        first = int(program.first[number])
        chunks = range(first, first + int(program.count[number]))
        conflicts: set[int] = set()
        for chunk in chunks if kind != OperationKind.RECEIVE else ():
            if (source, chunk) not in writers and not (
                source == held_in and any(chunk in span for span in own_input)
            ):
                found.append(f"rank {rank}: operation {number} reads chunk {chunk}, which is not there yet")
            conflicts.add(writers.get((source, chunk), number))
            if kind != OperationKind.RECEIVE_REDUCE or source != target:
                readers[source, chunk].append(number)
        for chunk in chunks if kind != OperationKind.SEND else ():
            conflicts.update(readers.pop((target, chunk), ()))
            conflicts.add(writers.get((target, chunk), number))
            writers[target, chunk] = number
        conflicts.discard(number)
        found.extend(
            f"rank {rank}: operations {other} and {number} race"
            for other in sorted(conflicts)
            if not before >> (other - start) & 1
        )
    return found


def _cycle(program: Program, streams: dict[_Stream, tuple[list[int], list[int]]]) -> list[str]:
    """Operations that can never start, if any (Kahn's algorithm over dependences, streams and messages)."""
    after: list[list[int]] = [[] for _ in range(program.n_operations)]
    blocked = [0] * program.n_operations

    def order(one: int, other: int) -> None:
        after[one].append(other)
        blocked[other] += 1

    for number in range(program.n_operations):
        for wait in program.waits_of(number).tolist():
            order(wait, number)
    for sends, receives in streams.values():
        for one, other in zip(sends, receives, strict=False):
            order(one, other)
        for stream in (sends, receives):
            for one, other in pairwise(stream):
                order(one, other)
    ready = [number for number, count in enumerate(blocked) if not count]
    done = 0
    while ready:
        done += 1
        for other in after[ready.pop()]:
            blocked[other] -= 1
            if not blocked[other]:
                ready.append(other)
    if done == program.n_operations:
        return []
    stuck = next(number for number, count in enumerate(blocked) if count)
    rank = int(program.operation_rank[stuck])
    return [f"deadlock: {program.n_operations - done} operations never start, first {stuck} of rank {rank}"]


def _range(first: int, count: int) -> str:
    return f"[{first}, {first + count})"
