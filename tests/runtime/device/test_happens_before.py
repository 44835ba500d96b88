"""The check of lanes in all orders: takes what lowering makes, and misses nothing that is left out of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reference.lanes.lane_orders import (
    changed,
    slices_to_judge,
)
from samples.matrix_cases import modes, plans
from treadle.planning import program_of
from treadle.program.program import Operation, OperationKind, program_from_operations
from treadle.runtime.device.block_lowering import lower_to_blocks
from treadle.runtime.device.block_program import (
    BlockAction,
    BlockProgram,
    DeviceProtocol,
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
