"""Divides a program into thread-block programs: parts that share no chunk, with a thread block at every rank.

Each part also has the order that thread blocks and signals impose on its operations (vector clocks).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from treadle.errors import ScheduleError
from treadle.program.message_levels import message_partners
from treadle.program.program import Buffer, OperationKind, Program

# Members of an enumeration are slow to look up, and the loops below do so millions of times.
SEND, RECEIVE, RECEIVE_REDUCE, COPY = map(int, OperationKind)
INPUT, OUTPUT = int(Buffer.INPUT), int(Buffer.OUTPUT)

PARALLEL = 32
"""Thread blocks of a rank that work concurrently, if there is enough work for them."""
REMEDY = "solve with fewer trees (--trees 1) or chunks, or write MSCCL XML instead"


def chunk_groups(program: Program) -> list[list[int]]:
    """Group operations by the finest division of the chunks that no operation's range crosses.

    Every operation is in one group, in the order of its number. Operations of different groups use no common
    chunk, so they do not depend on each other.
    """
    # A group ends where no range of an earlier operation reaches the first chunk of the next one.
    order = np.argsort(program.first, kind="stable")
    first, past = program.first[order], (program.first + program.count)[order]
    reach = np.maximum.accumulate(past)
    starts = np.concatenate([[True], first[1:] >= reach[:-1]]) if len(order) else np.zeros(0, dtype=bool)
    group = np.cumsum(starts) - 1
    members: list[list[int]] = [[] for _ in range(int(starts.sum()))]
    for number, place in sorted(zip(order.tolist(), group.tolist(), strict=True)):
        members[place].append(number)
    return members


@dataclass(frozen=True)
class Operations:
    """A program's operations as lists, because single elements of arrays are slow to look up."""

    owner: list[int]
    kind: list[int]
    peer: list[int]
    channel: list[int]
    first: list[int]
    past: list[int]
    """One past the last chunk."""
    source: list[int]
    target: list[int]
    is_in_place: bool
    receive_of: dict[int, int]
    """The receive of each send."""
    send_of: dict[int, int]
    """The send of each receive."""

    def count(self, number: int) -> int:
        """Return the number of chunks that an operation moves."""
        return self.past[number] - self.first[number]

    def memory(self, buffer: int) -> int:
        """Return the memory of a buffer: in place, INPUT and OUTPUT are the same."""
        return INPUT if self.is_in_place and buffer == OUTPUT else buffer

    def touches(self, number: int, memory: int, first: int, past: int) -> tuple[bool, bool]:
        """Whether an operation reads, and writes, chunks [first, past) of its rank's `memory`."""
        if self.first[number] >= past or self.past[number] <= first:
            return False, False
        kind = self.kind[number]
        reads = kind != RECEIVE and self.memory(self.source[number]) == memory
        writes = kind != SEND and self.memory(self.target[number]) == memory
        return reads, writes


def list_operations(program: Program) -> Operations:
    """Convert a program's operations to lists, and pair the i-th send of a stream with its i-th receive."""
    partner = message_partners(program)
    receives = np.flatnonzero(np.isin(program.operation_kind, (RECEIVE, RECEIVE_REDUCE)))
    send_of = dict(zip(receives.tolist(), partner[receives].tolist(), strict=True))
    return Operations(
        program.operation_rank.tolist(),
        program.operation_kind.tolist(),
        program.peer.tolist(),
        program.channel.tolist(),
        first=program.first.tolist(),
        past=(program.first + program.count).tolist(),
        source=program.source.tolist(),
        target=program.target.tolist(),
        is_in_place=program.in_place,
        receive_of={send: receive for receive, send in send_of.items()},
        send_of=send_of,
    )


@dataclass
class Block:
    """A thread-block program of all ranks, and the order that blocks and signals impose on its operations."""

    program: Program
    all: Operations
    """Operations of the entire program."""
    numbers: list[int]
    _clock: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @cached_property
    def by_rank(self) -> dict[int, list[int]]:
        """Operations of each rank, in order; sends, and sums, of the same chunks are together.

        Sends may precede receives of other chunks, but never other sends: the messages of each channel have
        the same order at both ends, and no wait moves forward.
        """
        found: dict[int, list[int]] = defaultdict(list)
        for number in self.numbers:
            own, kind = found[self.all.owner[number]], self.all.kind[number]
            place = len(own)
            if kind == SEND:
                place = self._behind(own, number, (RECEIVE, RECEIVE_REDUCE), SEND)
            elif kind == RECEIVE_REDUCE:
                end = self._behind(own, number, (SEND,), RECEIVE_REDUCE)
                begin = end
                while end < place and begin and self._is_same(own[begin - 1], number, RECEIVE_REDUCE):
                    begin -= 1
                # Move the earlier sums of these chunks to the end, so that all of them become one operation.
                own[begin:] = own[end:] + own[begin:end]
            own.insert(place, number)
        return dict(found)

    def _is_same(self, other: int, number: int, kind: int) -> bool:
        """Whether another operation has this kind and the same chunks."""
        every = self.all
        chunks = (every.first[number], every.past[number])
        return every.kind[other] == kind and (every.first[other], every.past[other]) == chunks

    def _behind(self, before: Sequence[int], number: int, passed: Sequence[int], kind: int) -> int:
        """Return the position after the last operation of the same kind and chunks, or the end.

        It is the end if any operation in between is not of a `passed` kind or has common chunks.
        """
        every, place = self.all, len(before)
        while place and every.kind[before[place - 1]] in passed:
            other = before[place - 1]
            if every.first[other] < every.past[number] and every.first[number] < every.past[other]:
                return len(before)
            place -= 1
        last = before[place - 1] if place else -1
        if last >= 0 and self._is_same(last, number, kind):
            return place if kind != SEND or every.source[last] == every.source[number] else len(before)
        return len(before)

    @cached_property
    def list_index(self) -> dict[int, int]:
        """Position of each operation in its rank's list, from 1."""
        return {
            number: place
            for numbers in self.by_rank.values()
            for place, number in enumerate(numbers, start=1)
        }

    def order(self) -> None:
        """Compute the vector clocks; ScheduleError if blocks that run their lists in order would deadlock."""
        send_of, clocks = self.all.send_of, self._clock
        now = {rank: [0] * self.program.n_ranks for rank in self.by_rank}
        done = dict.fromkeys(self.by_rank, 0)
        moving = True
        while moving:
            moving = False
            for rank, numbers in self.by_rank.items():
                clock = now[rank]
                while done[rank] < len(numbers):
                    number = numbers[done[rank]]
                    if number in send_of:
                        if send_of[number] not in clocks:
                            break
                        clock[:] = map(max, clock, clocks[send_of[number]])
                    done[rank] += 1
                    clock[rank] = done[rank]
                    clocks[number] = tuple(clock)
                    moving = True
        left = [numbers[done[rank]] for rank, numbers in self.by_rank.items() if done[rank] < len(numbers)]
        if left:
            number = min(left)
            kind = OperationKind(self.all.kind[number]).name.lower()
            raise ScheduleError(
                f"MSCCL++: rank {self.all.owner[number]}: {kind} of chunk {self.all.first[number]} waits in "
                "a cycle when a thread block keeps the list's order"
            )

    def is_before(self, one: int, other: int) -> bool:
        """Whether operation `one` is complete when `other` begins, whatever the blocks' speeds."""
        rank = self.all.owner[one]
        if rank == self.all.owner[other]:
            return self.list_index[one] < self.list_index[other]
        return self._clock[other][rank] >= self.list_index[one]


def make_blocks(
    program: Program,
    operations: Operations,
    room: int,
    most: int,
    groups: Sequence[Sequence[int]],
    *,
    alike: bool = False,
) -> Iterator[Block]:
    """Yield thread-block programs of whole groups, with at most `room` operations per rank in each.

    There are `PARALLEL` of them, fewer if there are fewer groups, or more if they do not fit. With `alike`,
    the groups of a thread block move the same amounts, as pipelines need. A group of more than `room`
    operations is separate. ScheduleError if there are more than `most`.
    """
    owner = program.operation_rank
    lanes: list[list[int]] = [[] for _ in range(min(PARALLEL, most, len(groups)))]
    loads = np.zeros((len(lanes), program.n_ranks), dtype=np.int64)
    amounts: list[frozenset[int] | None] = [None] * len(lanes)
    for group in groups:
        amount = frozenset(program.count[list(group)].tolist()) if alike else None
        weight = np.bincount(owner[list(group)], minlength=program.n_ranks)
        # The group goes where the fullest rank then has the fewest operations.
        after = (loads + weight).max(axis=1, initial=0)
        others = np.array([found not in (None, amount) for found in amounts], dtype=bool)
        after[others] = np.iinfo(np.int64).max
        place = int(after.argmin())
        if lanes[place] and after[place] > room:
            place = len(lanes)
            lanes.append([])
            amounts.append(None)
            loads = np.concatenate([loads, np.zeros((1, program.n_ranks), dtype=np.int64)])
        amounts[place] = amount
        lanes[place].extend(group)
        loads[place] += weight
    if len(lanes) > most:
        raise ScheduleError(
            f"MSCCL++: needs {len(lanes)} thread blocks a rank of {room} operations each, the limit is "
            f"{most}; {REMEDY}"
        )
    for numbers in lanes:
        lane = Block(program, operations, sorted(numbers))
        lane.order()
        yield lane
