"""Static checks of a program: streams match, ranges exist, nothing races and nothing deadlocks."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from treadle.arrays import Int64Array
from treadle.program.check_races import find_races
from treadle.program.program import Buffer, OperationKind, Program


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
    Memory is followed by runs of chunks that all operations of a rank treat alike. A conflict is mostly
    settled by a wait nearby; a rank with others has all its operations' ancestors as bit sets: at worst
    O(n**2 / 64) for n operations of a rank.
    """
    streams = _find_streams(program)
    violations = [*_mismatches(program, streams), *_range_errors(program)]
    for rank in range(program.n_ranks):
        violations.extend(find_races(program, rank))
    if _gets_stuck_in_order(program, streams):
        violations.extend(_cycle(program, streams))
    return tuple(violations)


@dataclass(frozen=True)
class _Streams:
    """Both ends of all streams: sends and receives by stream, in list order within each."""

    sends: Int64Array
    receives: Int64Array
    send_offset: Int64Array
    receive_offset: Int64Array
    """Stream s has the ends from offset[s] to offset[s + 1]."""

    def pairs(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Send and receive of all messages that have both, and the stream of each."""
        lengths = np.minimum(np.diff(self.send_offset), np.diff(self.receive_offset))
        stream = np.repeat(np.arange(len(lengths)), lengths)
        place = np.arange(len(stream)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return (
            self.sends[self.send_offset[stream] + place],
            self.receives[self.receive_offset[stream] + place],
            stream,
        )


def _find_streams(program: Program) -> _Streams:
    """Streams in the order in which the program first names them."""
    owner, peer = program.operation_rank.astype(np.int64), program.peer.astype(np.int64)
    is_send = program.operation_kind == OperationKind.SEND
    number = np.flatnonzero(program.operation_kind != OperationKind.COPY)
    tails, heads = (np.where(is_send, one, other)[number] for one, other in ((owner, peer), (peer, owner)))
    keys = (tails * program.n_ranks + heads) * (int(program.channel.max(initial=0)) + 1) + program.channel[
        number
    ]
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    rank_of = np.empty(len(first), dtype=np.int64)
    rank_of[np.argsort(first)] = np.arange(len(first))
    stream = rank_of[inverse]
    order = np.argsort(stream, kind="stable")
    number, stream = number[order], stream[order]
    sending = is_send[number]
    bounds = np.arange(len(first) + 1)
    return _Streams(
        number[sending],
        number[~sending],
        np.searchsorted(stream[sending], bounds),
        np.searchsorted(stream[~sending], bounds),
    )


def _mismatches(program: Program, streams: _Streams) -> list[str]:
    sends, receives, stream = streams.pairs()
    differ = (program.first[sends] != program.first[receives]) | (
        program.count[sends] != program.count[receives]
    )
    counts = np.diff(streams.send_offset), np.diff(streams.receive_offset)
    found = []
    for number in sorted({*stream[differ].tolist(), *np.flatnonzero(counts[0] != counts[1]).tolist()}):
        name = _name(program, streams, number)
        if counts[0][number] != counts[1][number]:
            found.append(f"{name}: {counts[0][number]} sends, {counts[1][number]} receives")
        inside = np.flatnonzero(stream == number)
        for place in np.flatnonzero(differ[inside]).tolist():
            ends = (int(end[inside[place]]) for end in (sends, receives))
            sent, taken = (_range(int(program.first[i]), int(program.count[i])) for i in ends)
            found.append(f"{name}: message {place} sends chunks {sent}, receives {taken}")
    return found


def _name(program: Program, streams: _Streams, number: int) -> str:
    low, past = streams.send_offset[number : number + 2]
    if past > low:
        one = int(streams.sends[low])
        ends = program.operation_rank[one], program.peer[one]
    else:
        one = int(streams.receives[streams.receive_offset[number]])
        ends = program.peer[one], program.operation_rank[one]
    return f"stream {ends[0]}->{ends[1]} channel {program.channel[one]}"


def _range_errors(program: Program) -> list[str]:
    found = []
    for rank in range(program.n_ranks):
        wrong: list[tuple[int, int, str]] = []
        span = program.operations(rank)
        part = slice(span.start, span.stop)
        first, past = program.first[part], program.first[part] + program.count[part]
        kind = program.operation_kind[part]
        for buffer in Buffer:
            ranges = np.array(program.ranges(rank, buffer), dtype=np.int64).reshape(-1, 2)
            at = np.searchsorted(ranges[:, 0], first, side="right") - 1
            inside = at >= 0
            inside[inside] = past[inside] <= ranges[at[inside], 1]
            has = ", ".join(_range(low, high - low) for low, high in ranges.tolist()) or "none"
            for turn, used in enumerate(
                (
                    (kind != OperationKind.RECEIVE) & (program.source[part] == buffer),
                    (kind != OperationKind.SEND) & (program.target[part] == buffer),
                )
            ):
                if turn and buffer is Buffer.INPUT and not program.in_place:
                    wrong += [(i, 1, "writes INPUT out of place") for i in np.flatnonzero(used).tolist()]
                wrong += [
                    (
                        i,
                        2 * turn,
                        f"uses {buffer.name} chunks {_range(int(first[i]), int(past[i] - first[i]))}, "
                        f"which has {has}",
                    )
                    for i in np.flatnonzero(used & ~inside).tolist()
                ]
        found += [f"rank {rank}: operation {span.start + i} {what}" for i, _, what in sorted(wrong)]
    return found


def _gets_stuck_in_order(program: Program, streams: _Streams) -> bool:
    """Whether ranks that run their lists in order, each receive after its send, do not all come to the end.

    If they do, that order shows that there is no cycle; if they do not, there may be one.
    """
    sends, receives, _ = streams.pairs()
    order = np.argsort(receives)
    owner = program.operation_rank
    sender = owner[sends[order]].tolist()
    awaited = sends[order].tolist()
    number = receives[order]
    bounds = np.searchsorted(number, program.operation_offset).tolist()
    numbers = number.tolist()
    place = list(bounds[:-1])
    # the first operation of each rank that is not over: all before its next receive are
    end = [numbers[i] if i < stop else 2**62 for i, stop in zip(place, bounds[1:], strict=True)]
    waiting: dict[int, list[int]] = defaultdict(list)
    ready = list(range(program.n_ranks))
    while ready:
        rank = ready.pop()
        at, stop = place[rank], bounds[rank + 1]
        while at < stop and end[sender[at]] > awaited[at]:
            at += 1
            end[rank] = numbers[at] if at < stop else 2**62
        if at > place[rank] or at == stop:
            ready += waiting.pop(rank, ())
        place[rank] = at
        if at < stop:
            waiting[sender[at]].append(rank)
    return any(at < stop for at, stop in zip(place, bounds[1:], strict=True))


def _cycle(program: Program, streams: _Streams) -> list[str]:
    """Operations that can never start, if any (Kahn's algorithm over dependences, streams and messages)."""
    after: list[list[int]] = [[] for _ in range(program.n_operations)]
    blocked = [0] * program.n_operations

    def order(one: int, other: int) -> None:
        after[one].append(other)
        blocked[other] += 1

    for number in range(program.n_operations):
        for wait in program.waits_of(number).tolist():
            order(wait, number)
    sends, receives, _ = streams.pairs()
    for one, other in zip(sends.tolist(), receives.tolist(), strict=True):
        order(one, other)
    for ends, offset in (
        (streams.sends, streams.send_offset),
        (streams.receives, streams.receive_offset),
    ):
        for low, past in pairwise(offset.tolist()):
            for one, other in pairwise(ends[low:past].tolist()):
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
