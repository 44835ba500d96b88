"""The check of lanes in all orders: takes what lowering makes, and misses nothing that is left out of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from samples.matrix_cases import modes, plans
from samples.runtime_programs import exchange, overwritten, random_program
from treadle.planning import program_of
from treadle.program.program import Buffer, Program
from treadle.runtime.device.happens_before import judge_lanes
from treadle.runtime.device.lane_lowering import lower_to_lanes
from treadle.runtime.device.lane_program import (
    DeviceProtocol,
    FlagPurpose,
    FlagWait,
    LaneAction,
    LaneOperation,
    LaneProgram,
)
from treadle.schedules.collective import CollectiveKind

PROTOCOLS = tuple(DeviceProtocol)


def slices_to_judge(lanes: LaneProgram) -> int:
    if lanes.protocol is DeviceProtocol.LL:
        return 1
    return max((message.slots for message in lanes.messages), default=0) + 2


def changed(lanes: LaneProgram, lane: int, place: int, operation: LaneOperation) -> LaneProgram:
    listed = list(lanes.lanes[lane].operations)
    listed[place] = operation
    return replace(
        lanes,
        lanes=tuple(
            replace(one, operations=tuple(listed)) if number == lane else one
            for number, one in enumerate(lanes.lanes)
        ),
    )


def without_a_wait(lanes: LaneProgram) -> Iterator[tuple[int, int, FlagWait, LaneProgram]]:
    for number, lane in enumerate(lanes.lanes):
        for place, operation in enumerate(lane.operations):
            for wait in operation.waits:
                left = tuple(one for one in operation.waits if one is not wait)
                yield number, place, wait, changed(lanes, number, place, replace(operation, waits=left))


def without_a_raise(lanes: LaneProgram) -> Iterator[tuple[int, LaneProgram]]:
    for number, lane in enumerate(lanes.lanes):
        for place, operation in enumerate(lane.operations):
            for flag in operation.raises:
                left = tuple(one for one in operation.raises if one != flag)
                yield flag, changed(lanes, number, place, replace(operation, raises=left))


Event = tuple[int, int, int, int]
"""Launch, lane, place in the lane (-1: its start) and slice."""


def accesses(lanes: LaneProgram, event: Event) -> Iterator[tuple[tuple[object, ...], bool]]:
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
        yield user(lane.rank, operation.source, False)
    if operation.target is not None:
        yield user(lane.rank, operation.target, operation.action is not LaneAction.AWAIT)
    if operation.action in (LaneAction.TAKE, LaneAction.REDUCE):
        yield slot(operation.message, False)
    for put in operation.puts:
        target = lanes.messages[put].target
        yield slot(put, True) if target is None else user(lanes.messages[put].receiver, target, True)


def every_conflict_is_ordered(lanes: LaneProgram, slices: int) -> bool:
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


def events_of(lanes: LaneProgram, slices: int) -> tuple[list[Event], dict[Event, list[Event]]]:
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


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_kind_of_schedule_is_right_in_every_order(protocol: DeviceProtocol) -> None:
    for (row, kind), plan in plans().items():
        for in_place in modes(kind):
            program = program_of(plan, 1024, in_place=in_place)
            lanes = lower_to_lanes(program, protocol, lanes=2, averages=program.kind.reduces)
            assert judge_lanes(lanes, slices=slices_to_judge(lanes)) == (), (row, kind, in_place)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", [kind for kind in CollectiveKind if kind is not CollectiveKind.ALLTOALL])
def test_random_trees_are_right_in_every_order(kind: CollectiveKind, protocol: DeviceProtocol) -> None:
    for seed in range(6):
        program = random_program(kind, 5, seed=seed, trees_per_root=2, in_place=bool(seed % 2))
        lanes = lower_to_lanes(program, protocol, lanes=1 + seed % 3)
        assert judge_lanes(lanes, slices=slices_to_judge(lanes)) == ()


@pytest.mark.parametrize(
    "program", [exchange(4, in_place=True), overwritten(3)], ids=["exchange", "overwritten"]
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_programs_that_only_buffered_sends_make_right(program: Program, protocol: DeviceProtocol) -> None:
    lanes = lower_to_lanes(program, protocol, lanes=2)
    found = judge_lanes(lanes, slices=slices_to_judge(lanes))
    if program.kind is CollectiveKind.BROADCAST:  # it sends rubbish on purpose, which the judge sees
        assert any("reads what is not there" in one for one in found)
    else:
        assert found == ()


SAMPLES = {
    "allreduce": random_program(CollectiveKind.ALLREDUCE, 4, seed=3, in_place=True),
    "exchange": exchange(4, in_place=True),
    "allgather": random_program(CollectiveKind.ALLGATHER, 4, seed=1),
    "reduce": random_program(CollectiveKind.REDUCE, 4, seed=2),
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_wait_left_out_is_refused_or_proved_redundant(name: str, protocol: DeviceProtocol) -> None:
    lanes = lower_to_lanes(SAMPLES[name], protocol, lanes=2)
    slices = slices_to_judge(lanes)
    refused = 0
    assert every_conflict_is_ordered(lanes, slices)
    for lane, place, wait, less in without_a_wait(lanes):
        is_refused = bool(judge_lanes(less, slices=slices))
        refused += is_refused
        assert is_refused != every_conflict_is_ordered(less, slices), (lane, place, lanes.flags[wait.flag])
    assert refused >= 3


@pytest.mark.parametrize("name", SAMPLES)
def test_a_flag_left_out_is_refused(name: str) -> None:
    lanes = lower_to_lanes(SAMPLES[name], DeviceProtocol.SIMPLE, lanes=2)
    slices = slices_to_judge(lanes)
    seen = set()
    for flag, less in without_a_raise(lanes):
        seen.add(lanes.flags[flag].purpose)
        assert any("which nobody raises" in one for one in judge_lanes(less, slices=slices))
    assert FlagPurpose.ARRIVAL in seen
    silent = replace(lanes, lanes=tuple(replace(lane, enters=()) for lane in lanes.lanes))
    assert judge_lanes(silent, slices=1)


def test_too_few_slots_are_refused() -> None:
    lanes = lower_to_lanes(SAMPLES["allreduce"], DeviceProtocol.SIMPLE, lanes=2)
    staged = next(number for number, message in enumerate(lanes.messages) if message.is_staged)
    credit = next(
        number
        for number, flag in enumerate(lanes.flags)
        if flag.purpose is FlagPurpose.CREDIT and flag.subject == staged
    )
    fewer = replace(
        lanes,
        messages=tuple(
            replace(message, slots=message.slots - 1) if number == staged else message
            for number, message in enumerate(lanes.messages)
        ),
    )
    assert any("may write before" in one for one in judge_lanes(fewer, slices=slices_to_judge(lanes)))
    for lane, place, wait, _ in list(without_a_wait(fewer)):
        if wait.flag == credit:
            operation = fewer.lanes[lane].operations[place]
            waits = tuple(
                replace(one, slices=one.slices - 1) if one == wait else one for one in operation.waits
            )
            fewer = changed(fewer, lane, place, replace(operation, waits=waits))
    found = judge_lanes(fewer, slices=slices_to_judge(lanes))
    assert found == () or "circle" in found[0]


def test_two_slots_of_ll_are_not_one() -> None:
    lanes = lower_to_lanes(SAMPLES["exchange"], DeviceProtocol.LL, lanes=1)
    one = replace(lanes, messages=tuple(replace(message, slots=1) for message in lanes.messages))
    assert any("may write before" in wrong for wrong in judge_lanes(one, slices=1))


def test_wrong_sums_are_refused() -> None:
    lanes = lower_to_lanes(SAMPLES["allreduce"], DeviceProtocol.SIMPLE, lanes=2)
    for number, lane in enumerate(lanes.lanes):
        for place, operation in enumerate(lane.operations):
            if operation.action is LaneAction.REDUCE:
                less = changed(lanes, number, place, replace(operation, action=LaneAction.TAKE, source=None))
                assert any("without part" in wrong for wrong in judge_lanes(less, slices=2))
    assert any("without part" in one for one in judge_lanes(replace(lanes, averages=True), slices=1))


def test_lanes_that_go_in_a_circle_are_refused() -> None:
    """Each rank takes before it puts."""
    lanes = lower_to_lanes(exchange(2, in_place=False), DeviceProtocol.SIMPLE, lanes=1)
    turned = []
    for lane in lanes.lanes:
        first, *others = (replace(operation, stage=0) for operation in lane.operations)
        turned.append(replace(lane, operations=(*others, first)))
    assert any("circle" in one for one in judge_lanes(replace(lanes, lanes=tuple(turned)), slices=1))


def test_messages_that_are_put_twice_or_elsewhere_are_refused() -> None:
    lanes = lower_to_lanes(SAMPLES["allgather"], DeviceProtocol.SIMPLE, lanes=1)
    put = next(place for place, one in enumerate(lanes.lanes[0].operations) if one.puts)
    operation = lanes.lanes[0].operations[put]
    twice = changed(lanes, 0, put, replace(operation, puts=operation.puts * 2))
    assert any("is put 2 times" in one for one in judge_lanes(twice, slices=1))
    foreign = replace(lanes.messages[operation.puts[0]], sender=1 + lanes.lanes[0].rank)
    messages = list(lanes.messages)
    messages[operation.puts[0]] = foreign
    assert any(
        "another rank" in one for one in judge_lanes(replace(lanes, messages=tuple(messages)), slices=1)
    )


def test_the_judge_shares_nothing_with_lowering(repository: Path) -> None:
    text = (repository / "src/treadle/runtime/device/happens_before.py").read_text(encoding="utf-8")
    imported = {line.split()[1] for line in text.splitlines() if line.startswith("from treadle")}
    assert imported == {
        "treadle.arrays",
        "treadle.program.program",
        "treadle.runtime.device.lane_program",
        "treadle.schedules.collective",
    }
