"""The check of lanes in all orders: takes what lowering makes, and misses nothing that is left out of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reference.lanes.lane_orders import (
    changed,
    every_conflict_is_ordered,
    slices_to_judge,
    without_a_raise,
    without_a_wait,
)
from samples.matrix_cases import modes, plans
from samples.runtime_programs import exchange, overwritten, random_program
from treadle.planning import program_of
from treadle.program.program import Operation, OperationKind, Program, program_from_operations
from treadle.runtime.device.block_lowering import lower_to_blocks
from treadle.runtime.device.block_program import (
    BlockAction,
    BlockProgram,
    DeviceProtocol,
    FlagPurpose,
    FlagWait,
)
from treadle.runtime.device.happens_before import check_blocks
from treadle.schedules.collective import CollectiveKind

PROTOCOLS = tuple(DeviceProtocol)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_kind_of_schedule_is_right_in_every_order(protocol: DeviceProtocol) -> None:
    for (row, kind), plan in plans().items():
        for in_place in modes(kind):
            program = program_of(plan, 1024, in_place=in_place)
            lanes = lower_to_blocks(program, protocol, lanes=2, averages=program.kind.reduces)
            assert check_blocks(lanes, slices=slices_to_judge(lanes)) == (), (row, kind, in_place)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", [kind for kind in CollectiveKind if kind is not CollectiveKind.ALLTOALL])
def test_random_trees_are_right_in_every_order(kind: CollectiveKind, protocol: DeviceProtocol) -> None:
    for seed in range(6):
        program = random_program(kind, 5, seed=seed, trees_per_root=2, in_place=bool(seed % 2))
        lanes = lower_to_blocks(program, protocol, lanes=1 + seed % 3)
        assert check_blocks(lanes, slices=slices_to_judge(lanes)) == ()


@pytest.mark.parametrize(
    "program", [exchange(4, in_place=True), overwritten(3)], ids=["exchange", "overwritten"]
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_programs_that_only_buffered_sends_make_right(program: Program, protocol: DeviceProtocol) -> None:
    lanes = lower_to_blocks(program, protocol, lanes=2)
    found = check_blocks(lanes, slices=slices_to_judge(lanes))
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
    lanes = lower_to_blocks(SAMPLES[name], protocol, lanes=2)
    slices = slices_to_judge(lanes)
    refused = 0
    assert every_conflict_is_ordered(lanes, slices)
    for lane, place, wait, less in without_a_wait(lanes):
        is_refused = bool(check_blocks(less, slices=slices))
        refused += is_refused
        assert is_refused != every_conflict_is_ordered(less, slices), (lane, place, lanes.flags[wait.flag])
    assert refused >= 3


@pytest.mark.parametrize("name", SAMPLES)
def test_a_flag_left_out_is_refused(name: str) -> None:
    lanes = lower_to_blocks(SAMPLES[name], DeviceProtocol.SIMPLE, lanes=2)
    slices = slices_to_judge(lanes)
    seen = set()
    for flag, less in without_a_raise(lanes):
        seen.add(lanes.flags[flag].purpose)
        assert any("which nobody raises" in one for one in check_blocks(less, slices=slices))
    assert FlagPurpose.ARRIVAL in seen
    silent = replace(lanes, lanes=tuple(replace(lane, enters=()) for lane in lanes.lanes))
    assert check_blocks(silent, slices=1)


def test_too_few_slots_are_refused() -> None:
    lanes = lower_to_blocks(SAMPLES["allreduce"], DeviceProtocol.SIMPLE, lanes=2)
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
    assert any("may write before" in one for one in check_blocks(fewer, slices=slices_to_judge(lanes)))
    for lane, place, wait, _ in list(without_a_wait(fewer)):
        if wait.flag == credit:
            operation = fewer.lanes[lane].operations[place]
            waits = tuple(
                replace(one, slices=one.slices - 1) if one == wait else one for one in operation.waits
            )
            fewer = changed(fewer, lane, place, replace(operation, waits=waits))
    found = check_blocks(fewer, slices=slices_to_judge(lanes))
    assert found == () or "circle" in found[0]


def test_two_slots_of_ll_are_not_one() -> None:
    lanes = lower_to_blocks(SAMPLES["exchange"], DeviceProtocol.LL, lanes=1)
    one = replace(lanes, messages=tuple(replace(message, slots=1) for message in lanes.messages))
    assert any("may write before" in wrong for wrong in check_blocks(one, slices=1))


def test_wrong_sums_are_refused() -> None:
    lanes = lower_to_blocks(SAMPLES["allreduce"], DeviceProtocol.SIMPLE, lanes=2)
    for number, lane in enumerate(lanes.lanes):
        for place, operation in enumerate(lane.operations):
            if operation.action is BlockAction.REDUCE:
                less = changed(lanes, number, place, replace(operation, action=BlockAction.TAKE, source=None))
                assert any("without part" in wrong for wrong in check_blocks(less, slices=2))
    assert any("without part" in one for one in check_blocks(replace(lanes, averages=True), slices=1))


def test_lanes_that_go_in_a_circle_are_refused() -> None:
    """Each rank takes before it puts."""
    lanes = lower_to_blocks(exchange(2, in_place=False), DeviceProtocol.SIMPLE, lanes=1)
    turned = []
    for lane in lanes.lanes:
        first, *others = (replace(operation, stage=0) for operation in lane.operations)
        turned.append(replace(lane, operations=(*others, first)))
    assert any("circle" in one for one in check_blocks(replace(lanes, lanes=tuple(turned)), slices=1))


def test_messages_that_are_put_twice_or_elsewhere_are_refused() -> None:
    lanes = lower_to_blocks(SAMPLES["allgather"], DeviceProtocol.SIMPLE, lanes=1)
    put = next(place for place, one in enumerate(lanes.lanes[0].operations) if one.puts)
    operation = lanes.lanes[0].operations[put]
    twice = changed(lanes, 0, put, replace(operation, puts=operation.puts * 2))
    assert any("is put 2 times" in one for one in check_blocks(twice, slices=1))
    foreign = replace(lanes.messages[operation.puts[0]], sender=1 + lanes.lanes[0].rank)
    messages = list(lanes.messages)
    messages[operation.puts[0]] = foreign
    assert any(
        "another rank" in one for one in check_blocks(replace(lanes, messages=tuple(messages)), slices=1)
    )


def pair_sum() -> BlockProgram:
    """Rank 1 adds to what rank 0 sends, and keeps it; flags: rank 1 has entered, credit, arrival."""
    send = Operation(OperationKind.SEND, 0, 1, peer=1)
    add = Operation(OperationKind.RECEIVE_REDUCE, 0, 1, peer=0)
    program = program_from_operations(
        CollectiveKind.REDUCE, [[send], [add]], n_chunks=1, shard_offset=[0, 0, 1], root=1
    )
    return lower_to_blocks(program, DeviceProtocol.SIMPLE, lanes=1)


def at(rank: int, launch: int, piece: int) -> str:
    return f"rank {rank}, launch {launch}, {('PUT', 'REDUCE')[rank]} of part 0, slice {piece}"


UNRAISED = [
    f"{at(1, launch, piece)} waits for flag 2, which nobody raises so far"
    for launch in (1, 2, 3)
    for piece in (0, 1)
]
EVERY = [(launch, piece) for launch in (1, 2, 3) for piece in (0, 1)]


@pytest.mark.parametrize(
    ("rank", "fields", "wrong"),
    [
        (0, {}, []),
        (0, {"puts": (0, 0)}, ["message 0 is put 2 times"]),
        (0, {"puts": ()}, ["message 0 is put 0 times"]),
        (0, {"part": 1}, ["rank 0 puts message 0 of another rank or part"]),
        (1, {"message": -1}, ["message 0 is taken 0 times"]),
        (1, {"action": BlockAction.AWAIT}, ["rank 1 takes message 0 from where it is not"]),
        (1, {"part": 1}, ["rank 1 takes message 0 from where it is not"]),
        (
            1,
            {"waits": (FlagWait(2), FlagWait(1))},
            ["rank 1 waits for a flag in another rank's memory"],
        ),
        (0, {"raises": ()}, UNRAISED),
        (0, {"raises": (1, 1)}, ["flag 1 does not grow", *UNRAISED]),
        (1, {"raises": (1, 2)}, ["flag 2 does not grow"]),
        (
            1,
            {"waits": ()},
            [f"{at(1, *turn)} may read before {at(0, *turn)} has written" for turn in EVERY],
        ),
        (
            0,
            {"waits": ()},
            [
                f"{at(0, launch, piece)} may write before {at(1, launch - 1, piece)} is done"
                for launch, piece in EVERY[2:]
            ],
        ),
        (
            1,
            {"action": BlockAction.TAKE, "source": None},
            [f"rank 1 ends launch {launch} of reduce without part 0" for launch, _ in EVERY],
        ),
        (
            0,
            {"waits": (FlagWait(1),)},
            [f"lanes wait for one another in a circle: {at(0, 1, 0)} may never start"],
        ),
    ],
)
def test_what_is_wrong_is_told_in_words(rank: int, fields: dict[str, object], wrong: list[str]) -> None:
    """The first five of it; three launches of two slices."""
    lanes = pair_sum()
    (operation,) = lanes.lanes[rank].operations
    other = changed(lanes, rank, 0, replace(operation, **fields))  # type: ignore[arg-type]
    assert list(check_blocks(other, slices=2)) == wrong[:5]


def test_the_judge_shares_nothing_with_lowering(repository: Path) -> None:
    imported = {
        line.split()[1]
        for name in ("happens_before", "event_places")
        for line in (repository / f"src/treadle/runtime/device/{name}.py").read_text("utf-8").splitlines()
        if line.startswith("from treadle")
    }
    assert imported == {
        "treadle.program.program",
        "treadle.runtime.device.event_ranges",
        "treadle.runtime.device.block_program",
        "treadle.schedules.collective",
    }
