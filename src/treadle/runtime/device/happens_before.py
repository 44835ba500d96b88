"""Check of thread-block programs in every order that their waits allow, independent of the lowering.

An event is a slice of an operation in a launch. Events of a block are ordered; so are the raise of a flag and
the waits that need it, and the ends of a launch's blocks, what the user does between launches (reads OUTPUT,
writes INPUT and leaves rubbish elsewhere), and the starts of the next. If that has a cycle, the blocks may
wait for ever. Vector clocks (Mattern 1989) then say of any two events whether one always comes first; two
accesses of one place, one of them a write, must be so ordered (as in FastTrack, Flanagan and Freund 2009).
Without a cycle or race all orders compute the same, and one of them is followed symbolically: every place
holds launch, part, slice and how often each rank's contribution is in it.

LL messages order nothing but their own 8 bytes: a word is there when its flag is. Whatever else they might
order must follow from flags.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

import numpy as np

from treadle.program.program import Buffer
from treadle.runtime.device.block_program import (
    BlockAction,
    BlockProgram,
    DeviceProtocol,
)
from treadle.runtime.device.event_ranges import (
    Event,
    Place,
    group_faults,
    part_exists,
    range_of,
    ranges_of,
    user_ranges,
)
from treadle.schedules.collective import CollectiveKind

LAUNCHES = 3
"""Followed one after the other: LL uses a slot again in the launch after the next."""

_MOST_VIOLATIONS = 5
_ALL_SLICES = 2**20 - 1


@dataclass(frozen=True, slots=True)
class _Held:
    """Content of a cell: multiplicity of each rank's contribution, and how often it was divided."""

    launch: int
    part: int
    piece: int
    counts: tuple[int, ...]
    divided: int = 0


def check_blocks(lanes: BlockProgram, *, slices: int, launches: int = LAUNCHES) -> tuple[str, ...]:
    """Check thread blocks over a number of launches, for all orders.

    Parameters
    ----------
    slices : int
        Of every part, at least 1. More than the most slots of a message and 2 repeat what fewer do.

    Returns
    -------
    tuple of str
        The first few faults; empty if every order gives the collective's result.

    Notes
    -----
    O(events * blocks).
    """
    wrong, events = _structure_faults(lanes), list[Event]()
    if not wrong:
        events = _events(lanes, slices, launches)
        wrong = _join_flags(lanes, events)
    if wrong:
        return tuple(wrong[:_MOST_VIOLATIONS])
    order = _topological_order(events)
    if len(order) < len(events):
        stuck = min(set(range(len(events))) - set(order))
        return (f"lanes wait for one another in a circle: {_describe(events[stuck])} may never start",)
    races = _races(lanes, events, order)
    return tuple(races[:_MOST_VIOLATIONS]) or tuple(_value_faults(lanes, events, order)[:_MOST_VIOLATIONS])


def _describe(event: Event) -> str:
    if event.operation is None:
        return f"rank {event.rank}, start of launch {event.launch}"
    name, part = event.operation.action.name, event.operation.part
    return f"rank {event.rank}, launch {event.launch}, {name} of part {part}, slice {event.piece}"


def _structure_faults(lanes: BlockProgram) -> list[str]:
    """Messages are put and taken once, by the ranks that they name; ranks wait for flags of their own."""
    put, taken = [0] * len(lanes.messages), [0] * len(lanes.messages)
    wrong: list[str] = []
    for lane in lanes.lanes:
        for operation in lane.operations:
            wrong += group_faults(lanes, lane.rank, operation)
            for number in (*operation.puts, *operation.copies):
                message = lanes.messages[number]
                put[number] += 1
                if (message.sender, message.part) != (lane.rank, operation.part):
                    wrong.append(f"rank {lane.rank} puts message {number} of another rank or part")
            if operation.message >= 0:
                message = lanes.messages[operation.message]
                taken[operation.message] += 1
                if (message.receiver, message.part) != (lane.rank, operation.part) or (
                    message.is_staged == (operation.action is BlockAction.AWAIT)
                ):
                    wrong.append(f"rank {lane.rank} takes message {operation.message} from where it is not")
            if any(lanes.flags[wait.flag].rank != lane.rank for wait in operation.waits):
                wrong.append(f"rank {lane.rank} waits for a flag in another rank's memory")
    return wrong + [
        f"message {number} is {word} {times} times"
        for word, counts in (("put", put), ("taken", taken))
        for number, times in enumerate(counts)
        if times != 1
    ]


def _events(lanes: BlockProgram, slices: int, launches: int) -> list[Event]:
    """All events with the order within blocks and of launches; the user's come before all of a launch."""
    n, events = lanes.program.n_ranks, list[Event]()
    last: list[list[int]] = [[] for _ in range(n)]
    for launch in range(1, launches + 2):
        for rank in range(n):
            events.append(Event(len(lanes.lanes) + rank, rank, launch, before=last[rank]))
            last[rank] = [len(events) - 1]
        if launch > launches:
            break
        ends: list[list[int]] = [[] for _ in range(n)]
        for column, lane in enumerate(lanes.lanes):
            before = last[lane.rank]
            events.append(Event(column, lane.rank, launch, before=before))
            ordered = sorted(
                (operation.stage + piece, place, piece)
                for place, operation in enumerate(lane.operations)
                for piece in range(slices)
            )
            for _, place, piece in ordered:
                operation = lane.operations[place]
                events.append(Event(column, lane.rank, launch, piece, operation, before=[len(events) - 1]))
            ends[lane.rank].append(len(events) - 1)
        last = [own + before for own, before in zip(ends, last, strict=True)]
    return events


def _join_flags(lanes: BlockProgram, events: Sequence[Event]) -> list[str]:
    """Add what waits for flags and LL words come after."""
    raised: dict[int, list[tuple[int, int]]] = defaultdict(list)
    entering: set[int] = set()
    put_at: dict[tuple[int, int, int], int] = {}
    for number, event in enumerate(events):
        if event.operation is not None:
            for flag in event.operation.raises:
                raised[flag].append((event.launch * 2**20 + event.piece + 1, number))
            for message in (*event.operation.puts, *event.operation.copies):
                put_at[message, event.launch, event.piece] = number
        elif event.column < len(lanes.lanes):
            entering.update(lanes.lanes[event.column].enters)
            for flag in lanes.lanes[event.column].enters:
                raised[flag].append((event.launch * 2**20 + _ALL_SLICES, number))
    wrong: list[str] = []
    for flag, values in raised.items():
        column = {events[number].column for _, number in values}
        if len(column) > 1 or any(one >= other for one, other in pairwise(values)):
            wrong.append(f"flag {flag} does not grow")
    places = {flag: dict(values) for flag, values in raised.items()}
    for event in events:
        if event.operation is None:
            continue
        for wait in event.operation.waits:
            piece = event.piece + 1 - wait.slices
            launch = event.launch - wait.launches
            if piece <= 0 or launch <= 0:
                continue  # any value will do
            # the first event of the launch that raises the flag so far or beyond
            value = launch * 2**20 + (_ALL_SLICES if wait.flag in entering else piece)
            found = places.get(wait.flag, {}).get(value)
            if found is None:
                wrong.append(f"{_describe(event)} waits for flag {wait.flag}, which nobody raises so far")
            else:
                event.before.append(found)
        if lanes.protocol is DeviceProtocol.LL and event.operation.message >= 0:
            event.after_data.append(put_at[event.operation.message, event.launch, event.piece])
    return wrong


def _topological_order(events: Sequence[Event]) -> list[int]:
    """Number events in topological order, without those on a cycle or behind one."""
    before = {number: (*event.before, *event.after_data) for number, event in enumerate(events)}
    sorter, order = TopologicalSorter(before), list[int]()
    with suppress(CycleError):  # what no cycle holds up is still given
        sorter.prepare()
    while ready := sorter.get_ready():
        order += ready
        sorter.done(*ready)
    return order


def _races(lanes: BlockProgram, events: Sequence[Event], order: Sequence[int]) -> list[str]:
    """Pairs of accesses of one place, one of them a write, that no chain of waits orders."""
    clocks = np.zeros((len(events), len(lanes.lanes) + lanes.program.n_ranks), dtype=np.int32)
    slices = 1 + max(event.piece for event in events)
    users = {
        rank: [place for _, place in user_ranges(lanes, rank, slices)]
        for rank in range(lanes.program.n_ranks)
    }
    seen_by: list[tuple[int, int]] = [(0, 0)] * len(events)
    turn = [0] * clocks.shape[1]
    writer: dict[Place, int] = {}
    readers: dict[Place, list[int]] = defaultdict(list)
    wrong: list[str] = []

    def is_ordered(first: int, then: int) -> bool:
        column, time = seen_by[first]
        return bool(clocks[then, column] >= time)

    for number in order:
        event = events[number]
        # the clock of an event: the latest of all before it, and one more of its own lane
        own = clocks[number]
        for before in event.before:
            np.maximum(own, clocks[before], out=own)
        turn[event.column] += 1
        own[event.column] = turn[event.column]
        seen_by[number] = event.column, turn[event.column]
        reads: list[Place] = []
        writes = users[event.rank] if event.column >= len(lanes.lanes) else []
        if event.operation is not None:
            reads, writes = ranges_of(lanes, event)
        for place in reads:
            last = writer.get(place)
            if last is not None and not is_ordered(last, number) and last not in event.after_data:
                wrong.append(f"{_describe(event)} may read before {_describe(events[last])} has written")
            readers[place].append(number)
        for place in writes:
            last = writer.get(place)
            others = [one for one in readers.pop(place, []) if one != number]
            wrong += [
                f"{_describe(event)} may write before {_describe(events[one])} is done"
                for one in (*others, *([] if last is None else [last]))
                if not is_ordered(one, number)
            ]
            writer[place] = number
        if len(wrong) >= _MOST_VIOLATIONS:
            break
    return wrong


def _value_faults(lanes: BlockProgram, events: Sequence[Event], order: Sequence[int]) -> list[str]:
    """Follow what every place holds through one order."""
    slices = 1 + max(event.piece for event in events)
    held: dict[Place, _Held] = {}
    wrong: list[str] = []
    for number in order:
        event = events[number]
        if event.operation is not None:
            wrong += _follow(lanes, event, held)
        elif event.column >= len(lanes.lanes):
            if event.launch > 1:
                wrong += _output_violations(lanes, event, held, slices)
            _fill(lanes, event, held, slices)
        if len(wrong) >= _MOST_VIOLATIONS:
            break
    return wrong


def _fill(lanes: BlockProgram, event: Event, held: dict[Place, _Held], slices: int) -> None:
    """Perform the user's actions: new input, and undefined values elsewhere."""
    places = list(user_ranges(lanes, event.rank, slices))
    for _, place in places:
        held.pop(place, None)
    counts = tuple(int(rank == event.rank) for rank in range(lanes.program.n_ranks))
    for buffer, place in places:
        if buffer is Buffer.INPUT:
            held[place] = _Held(event.launch, place[2], place[3], counts)


def _follow(lanes: BlockProgram, event: Event, held: dict[Place, _Held]) -> list[str]:
    operation = event.operation
    assert operation is not None
    reads, writes = ranges_of(lanes, event)
    found = [held.get(place) for place in reads]
    expected = (event.launch, operation.part, event.piece)
    if any(one is None or (one.launch, one.part, one.piece) != expected for one in found):
        return [f"{_describe(event)} reads what is not there, or of another launch or slice"]
    values = [one for one in found if one is not None]
    if operation.action in (BlockAction.REDUCE, BlockAction.SUM):
        counts = tuple(map(sum, zip(*(one.counts for one in values), strict=True)))
        made = _Held(*expected, counts, max(one.divided for one in values))
    elif operation.action is BlockAction.FINISH:
        made = _Held(*expected, values[0].counts, values[0].divided + 1)
    elif not values:
        return []  # it only waits, or raises
    else:
        made = values[0]
    for place in writes:
        held[place] = made
    return []


def _output_violations(lanes: BlockProgram, event: Event, held: dict[Place, _Held], slices: int) -> list[str]:
    """Places of OUTPUT that do not hold at the end of a launch what the collective's definition says."""
    launch, divided = event.launch - 1, int(lanes.averages)
    return [
        f"rank {event.rank} ends launch {launch} of {lanes.program.kind} without part {part}"
        for part in range(len(lanes.bounds) - 1)
        if part_exists(lanes, event.rank, Buffer.OUTPUT, part)
        for piece in range(slices)
        if held.get(range_of(lanes, event.rank, Buffer.OUTPUT, part, piece))
        != _Held(launch, part, piece, _expected(lanes, part), divided)
    ]


def _expected(lanes: BlockProgram, part: int) -> tuple[int, ...]:
    """Return the expected multiplicity of each rank's contribution in a part of OUTPUT."""
    program, first = lanes.program, lanes.bounds[part]
    n = program.n_ranks
    if program.kind.reduces:
        return (1,) * n
    if program.kind is CollectiveKind.BROADCAST:
        return tuple(int(rank == program.root) for rank in range(n))
    shard = next(number for number, past in enumerate(program.shard_offset[1:].tolist()) if first < past)
    owner = shard // n if program.kind is CollectiveKind.ALLTOALL else shard
    return tuple(int(rank == owner) for rank in range(n))
