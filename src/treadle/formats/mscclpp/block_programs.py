"""A program divided into lanes: parts that share no chunk, one thread block each at every rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from treadle.errors import ScheduleError
from treadle.program.message_levels import message_partners
from treadle.program.program import Buffer, OperationKind, Program

# members of an enumeration are looked up slowly, and these millions of times
SEND, RECEIVE, RECEIVE_REDUCE, COPY = map(int, OperationKind)
INPUT, OUTPUT = int(Buffer.INPUT), int(Buffer.OUTPUT)

PARALLEL = 32
"""Thread blocks of a rank that work side by side, where there is work for so many."""
REMEDY = "solve with fewer trees (--trees 1) or chunks, or write MSCCL XML instead"


def chunk_groups(program: Program) -> list[list[int]]:
    """Operations by the finest division of the chunks that no operation's range straddles.

    Every operation is in one group, in the order of its number; operations of different groups touch no
    common chunk, so no dependence joins them.
    """
    order = np.argsort(program.first, kind="stable")
    first, past = program.first[order], (program.first + program.count)[order]
    reach = np.maximum.accumulate(past)
    starts = np.concatenate([[True], first[1:] >= reach[:-1]]) if len(order) else np.zeros(0, dtype=bool)
    group = np.cumsum(starts) - 1
    members: list[list[int]] = [[] for _ in range(int(starts.sum()))]
    for number, place in sorted(zip(order.tolist(), group.tolist(), strict=True)):
        members[place].append(number)
    return members


def assign_blocks(
    program: Program, groups: Sequence[Sequence[int]], room: int, most: int, *, alike: bool = False
) -> list[list[int]]:
    """Groups assigned to lanes evenly, at most `room` operations of a rank in each.

    There are `PARALLEL` lanes, or fewer if there are fewer groups, or more if they don't hold all. `alike`: a
    lane's groups move the same amounts, as pipelines ask.

    Raises
    ------
    ScheduleError
        If there are more than `most` lanes. A group of more than `room` operations has a lane of its own.
    """
    owner = program.operation_rank
    lanes: list[list[int]] = [[] for _ in range(min(PARALLEL, most, len(groups)))]
    loads = np.zeros((len(lanes), program.n_ranks), dtype=np.int64)
    amounts: list[frozenset[int] | None] = [None] * len(lanes)
    for group in groups:
        amount = frozenset(program.count[list(group)].tolist()) if alike else None
        weight = np.bincount(owner[list(group)], minlength=program.n_ranks)
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
    return [sorted(lane) for lane in lanes]


@dataclass(frozen=True)
class Operations:
    """A program's operations as lists: what is in arrays is looked up slowly, and this millions of times."""

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
        """How many chunks an operation moves."""
        return self.past[number] - self.first[number]

    def memory(self, buffer: int) -> int:
        """The memory that a buffer is: in place, INPUT and OUTPUT are one."""
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
    """Operations of a program, the i-th send of a stream with its i-th receive.

    Raises
    ------
    ScheduleError
        If something is received that nobody sends.
    """
    partner = message_partners(program)
    receives = np.flatnonzero(np.isin(program.operation_kind, (RECEIVE, RECEIVE_REDUCE)))
    lost = receives[partner[receives] < 0]
    if lost.size:
        raise ScheduleError(f"MSCCL++: operation {lost[0]} receives what nobody sends")
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
    """Some of a program's operations with the order that thread blocks and signals impose on them."""

    program: Program
    all: Operations
    """Those of other lanes too."""
    numbers: list[int]
    _clock: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @cached_property
    def by_rank(self) -> dict[int, list[int]]:
        """Operations of each rank that has some, in order; sends, and sums, of the same chunks are together.

        Sends leave earlier than receives of other chunks, never than other sends: each channel has its
        messages in the order of the other end, and no wait comes earlier.
        """
        found: dict[int, list[int]] = defaultdict(list)
        for number in self.numbers:
            own, kind = found[self.all.owner[number]], self.all.kind[number]
            place = len(own)
            if kind == SEND:
                place = self._behind(own, number, (RECEIVE, RECEIVE_REDUCE), SEND)
            elif kind == RECEIVE_REDUCE:
                end = self._behind(own, number, (SEND,), RECEIVE_REDUCE)
                begin, every = end, self.all
                while (
                    end < place
                    and begin
                    and every.kind[other := own[begin - 1]] == RECEIVE_REDUCE
                    and (every.first[other], every.past[other]) == (every.first[number], every.past[number])
                ):
                    begin -= 1
                own[begin:] = own[end:] + own[begin:end]
            own.insert(place, number)
        return dict(found)

    def _behind(self, before: Sequence[int], number: int, passed: Sequence[int], kind: int) -> int:
        """Place behind the last of the same kind and chunks, if only others of `passed` kinds are between."""
        every, place = self.all, len(before)
        while place and every.kind[before[place - 1]] in passed:
            other = before[place - 1]
            if every.first[other] < every.past[number] and every.first[number] < every.past[other]:
                return len(before)
            place -= 1
        last = before[place - 1] if place else -1
        is_same = last >= 0 and every.kind[last] == kind
        same_chunks = (every.first[number], every.past[number])
        if is_same and (every.first[last], every.past[last]) == same_chunks:
            return place if kind != SEND or every.source[last] == every.source[number] else len(before)
        return len(before)

    @cached_property
    def list_index(self) -> dict[int, int]:
        """Where each operation stands in its rank's list, from 1."""
        return {
            number: place
            for numbers in self.by_rank.values()
            for place, number in enumerate(numbers, start=1)
        }

    def order(self) -> None:
        """Find what comes before what.

        Raises
        ------
        ScheduleError
            If blocks that run their lists in order would wait for each other.
        """
        owner, send_of = self.all.owner, self.all.send_of
        now = {rank: [0] * self.program.n_ranks for rank in self.by_rank}
        queues = {rank: iter(numbers) for rank, numbers in self.by_rank.items()}
        heads = {rank: next(queue) for rank, queue in queues.items()}
        moving = True
        while heads and moving:
            moving = False
            for rank in list(heads):
                while rank in heads:
                    number = heads[rank]
                    if number in send_of and send_of[number] not in self._clock:
                        break
                    clock = now[rank]
                    if number in send_of:
                        clock[:] = map(max, clock, self._clock[send_of[number]])
                    clock[owner[number]] = self.list_index[number]
                    self._clock[number] = tuple(clock)
                    moving = True
                    following = next(queues[rank], None)
                    if following is None:
                        del heads[rank]
                    else:
                        heads[rank] = following
        if heads:
            number = min(heads.values())
            kind = OperationKind(self.all.kind[number]).name.lower()
            raise ScheduleError(
                f"MSCCL++: rank {owner[number]}: {kind} of chunk "
                f"{self.all.first[number]} waits in a circle when a thread block keeps the list's order"
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
    """Lanes of a program, in order, each with its order found; `alike` as for `assign_blocks`."""
    for numbers in assign_blocks(program, groups, room, most, alike=alike):
        lane = Block(program, operations, numbers)
        lane.order()
        yield lane
