"""A second check of lanes: all pairs of accesses of one place, by going back from event to event."""

from __future__ import annotations

from dataclasses import replace

from treadle.runtime.device.block_program import (
    BlockOperation,
    BlockProgram,
    DeviceProtocol,
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
