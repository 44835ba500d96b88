"""A second check of lanes: all pairs of accesses of one place, by going back from event to event."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from treadle.program.program import Buffer
from treadle.runtime.device.block_program import (
    BlockAction,
    BlockOperation,
    BlockProgram,
    DeviceProtocol,
    FlagWait,
)


def slices_to_judge(lanes: BlockProgram) -> int:
    if lanes.protocol is DeviceProtocol.LL:
        return 1
    return max((message.slots for message in lanes.messages), default=0) + 2


def changed(lanes: BlockProgram, lane: int, place: int, operation: BlockOperation) -> BlockProgram:
    listed = list(lanes.lanes[lane].operations)
    listed[place] = operation
    return replace(
        lanes,
        lanes=tuple(
            replace(one, operations=tuple(listed)) if number == lane else one
            for number, one in enumerate(lanes.lanes)
        ),
    )


def without_a_wait(lanes: BlockProgram) -> Iterator[tuple[int, int, FlagWait, BlockProgram]]:
    for number, lane in enumerate(lanes.lanes):
        for place, operation in enumerate(lane.operations):
            for wait in operation.waits:
                left = tuple(one for one in operation.waits if one is not wait)
                yield number, place, wait, changed(lanes, number, place, replace(operation, waits=left))


def without_a_raise(lanes: BlockProgram) -> Iterator[tuple[int, BlockProgram]]:
    for number, lane in enumerate(lanes.lanes):
        for place, operation in enumerate(lane.operations):
            for flag in operation.raises:
                left = tuple(one for one in operation.raises if one != flag)
                yield flag, changed(lanes, number, place, replace(operation, raises=left))


Event = tuple[int, int, int, int]
"""Launch, lane, place in the lane (-1: its start) and slice."""


def accesses(lanes: BlockProgram, event: Event) -> Iterator[tuple[tuple[object, ...], bool]]:
    """Places that an event of a lane touches, and whether it writes."""
    launch, number, spot, piece = event
    lane = lanes.lanes[number]
    operation = lane.operations[spot]
    is_ll = lanes.protocol is DeviceProtocol.LL

    def user(rank: int, buffer: Buffer, writes: bool) -> tuple[tuple[object, ...], bool]:
        memory = "in" if lanes.program.in_place and buffer is Buffer.OUTPUT else buffer.name[:2].lower()
        return (rank, memory, operation.part, piece), writes

    def slot(message: int, writes: bool) -> tuple[tuple[object, ...], bool]:
        turn = launch if is_ll else piece
        return ("slot", message, turn % lanes.messages[message].slots), writes

    if operation.source is not None:
        for rank in lanes.groups[operation.sums] if operation.sums >= 0 else (lane.rank,):
            yield user(rank, operation.source, False)
    if operation.copied_to is not None:
        for rank in lanes.groups[operation.multicast]:
            yield user(rank, operation.copied_to, True)
    if operation.target is not None:
        yield user(lane.rank, operation.target, operation.action is not BlockAction.AWAIT)
    if operation.action in (BlockAction.TAKE, BlockAction.REDUCE):
        yield slot(operation.message, False)
    for put in operation.puts:
        target = lanes.messages[put].target
        yield slot(put, True) if target is None else user(lanes.messages[put].receiver, target, True)


def every_conflict_is_ordered(lanes: BlockProgram, slices: int) -> bool:
    """Whether of any two accesses of one place, one a write, one event always comes first: pair by pair.

    Knows nothing of clocks, of which access was the last or of values: it goes back from every event to all
    that are before it. The user, who touches all of a rank's memory, is an event on no lane.
    """
    order, before = events_of(lanes, slices)
    place = {event: number for number, event in enumerate(order)}
    past: dict[Event, int] = {}

    def back(event: Event) -> int:
        """All events before one, as bits; after them, whatever the order in which they are listed."""
        waiting = [event]
        while waiting:
            top = waiting[-1]
            missing = [one for one in before[top] if one not in past]
            waiting.extend(missing)
            if not missing:
                waiting.pop()
                past[top] = 0
                for one in before[top]:
                    past[top] |= past[one] | 1 << place[one]
        return past[event]

    users: dict[object, list[Event]] = defaultdict(list)
    at: dict[tuple[object, ...], list[tuple[Event, bool]]] = defaultdict(list)
    for event in order:
        if event[1] < 0:
            users[-1 - event[1]].append(event)
        elif event[2] >= 0:
            for where, writes in accesses(lanes, event):
                at[where].append((event, writes))
    for where, found in at.items():
        found += [(event, True) for event in users.get(where[0], [])]
        for (one, writes), (other, writes_too) in combinations(found, 2):
            if one == other or not (writes or writes_too):
                continue
            # an LL word that is polled for says itself whose it is: what is older is never taken for it
            early, late = sorted(((one, writes), (other, writes_too)), key=lambda both: both[0][0])
            is_word = where[0] == "slot" and lanes.protocol is DeviceProtocol.LL
            if is_word and ((early[1] and not late[1]) or one[0] == other[0]):
                continue
            if back(other) >> place[one] & 1 or back(one) >> place[other] & 1:
                continue
            return False
    return True


def events_of(lanes: BlockProgram, slices: int) -> tuple[list[Event], dict[Event, list[Event]]]:
    """Events of three launches, those of a rank's user on lane -1 - rank, and what is next before each."""
    before: dict[Event, list[Event]] = defaultdict(list)
    raised: dict[tuple[int, int, int], Event] = {}
    ended: dict[int, list[Event]] = defaultdict(list)
    order: list[Event] = []

    def add(event: Event, *earlier: Event) -> Event:
        before[event] += earlier
        order.append(event)
        return event

    for launch in range(1, 5):
        user = {rank: add((launch, -1 - rank, 0, 0), *ended[rank]) for rank in range(lanes.program.n_ranks)}
        ended = defaultdict(list)
        for number, one in enumerate(lanes.lanes if launch < 4 else ()):
            last = add((launch, number, -1, 0), user[one.rank])
            raised |= {(flag, launch, piece): last for flag in one.enters for piece in range(slices)}
            deepest = max((operation.stage for operation in one.operations), default=0)
            for wave in range(deepest + slices):
                for spot, operation in enumerate(one.operations):
                    piece = wave - operation.stage
                    if 0 <= piece < slices:
                        last = add((launch, number, spot, piece), last)
                        raised |= {(flag, launch, piece): last for flag in operation.raises}
            ended[one.rank].append(last)
    for launch, number, spot, piece in order:
        if number >= 0 and spot >= 0:
            for wait in lanes.lanes[number].operations[spot].waits:
                key = (wait.flag, launch - wait.launches, piece - wait.slices)
                if key[1] >= 1 and key[2] >= 0:
                    before[launch, number, spot, piece].append(raised[key])
    return order, before
