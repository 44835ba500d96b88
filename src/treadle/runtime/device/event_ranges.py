"""What an event of lanes reads and writes, for the check of all orders: places in the memories of ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from treadle.program.program import Buffer
from treadle.runtime.device.block_program import BlockAction, BlockOperation, BlockProgram, DeviceProtocol

Place = tuple[int, int, int, int]
"""Rank, memory, part and slice; of staging: -1, message, 0 and slot."""


@dataclass(slots=True)
class Event:
    """A slice of an operation; what a lane does when it enters; or the user between launches."""

    column: int
    rank: int
    launch: int
    piece: int = 0
    operation: BlockOperation | None = None
    before: list[int] = field(default_factory=list)
    """Events that are complete before, and visible."""
    after_data: list[int] = field(default_factory=list)
    """Events of which only an LL message is known to be there."""


def ranges_of(lanes: BlockProgram, event: Event) -> tuple[list[Place], list[Place]]:
    """What an event of a lane reads and writes: of its own rank's and others' memory."""
    operation = event.operation
    assert operation is not None
    reads: list[Place] = []
    writes: list[Place] = []
    if operation.source is not None:
        readers = lanes.groups[operation.sums] if operation.sums >= 0 else (event.rank,)
        reads += [range_of(lanes, one, operation.source, operation.part, event.piece) for one in readers]
    if operation.action in (BlockAction.TAKE, BlockAction.REDUCE):
        reads.append(_slot(lanes, operation.message, event))
    if operation.target is not None:
        own = range_of(lanes, event.rank, operation.target, operation.part, event.piece)
        (reads if operation.action is BlockAction.AWAIT else writes).append(own)
    if operation.copied_to is not None:
        writes += [
            range_of(lanes, one, operation.copied_to, operation.part, event.piece)
            for one in lanes.groups[operation.multicast]
        ]
    for number in operation.puts:
        message = lanes.messages[number]
        writes.append(
            _slot(lanes, number, event)
            if message.target is None
            else range_of(lanes, message.receiver, message.target, message.part, event.piece)
        )
    return reads, writes


def range_of(lanes: BlockProgram, rank: int, buffer: Buffer, part: int, piece: int) -> Place:
    """A slice of a part in a rank's buffer."""
    is_shared = lanes.program.in_place and buffer is Buffer.OUTPUT
    return rank, int(Buffer.INPUT if is_shared else buffer), part, piece


def _slot(lanes: BlockProgram, number: int, event: Event) -> Place:
    slots = max(1, lanes.messages[number].slots)
    is_ll = lanes.protocol is DeviceProtocol.LL
    return (-1, number, event.piece, event.launch % slots) if is_ll else (-1, number, 0, event.piece % slots)


def user_ranges(lanes: BlockProgram, rank: int, slices: int) -> Iterator[tuple[Buffer, Place]]:
    """All of a rank's user memory."""
    for buffer in Buffer:
        for part in range(len(lanes.bounds) - 1):
            if part_exists(lanes, rank, buffer, part):
                for piece in range(slices):
                    yield buffer, range_of(lanes, rank, buffer, part, piece)


def part_exists(lanes: BlockProgram, rank: int, buffer: Buffer, part: int) -> bool:
    """Whether a rank's buffer has all of a part."""
    first, past = lanes.bounds[part], lanes.bounds[part + 1]
    return any(low <= first and past <= high for low, high in lanes.program.ranges(rank, buffer))


def group_faults(lanes: BlockProgram, rank: int, operation: BlockOperation) -> Iterator[str]:
    """What is wrong with the groups that an operation asks a switch for.

    Whoever asks is of the group, a buffer holds the part at the same place at all its ranks, and a copied
    store is a message to each of the others, straight into its target.
    """

    def chunks_before(buffer: Buffer, group: tuple[int, ...]) -> Iterator[object]:
        """Ranges of chunks before the part in each rank's buffer; the rank where it has no such part."""
        first = lanes.bounds[operation.part]
        for one in group:
            ranges = lanes.program.ranges(one, buffer)
            before = tuple((low, min(past, first)) for low, past in ranges if low <= first)
            yield before if part_exists(lanes, one, buffer, operation.part) else one

    asked = ((operation.sums, operation.source), (operation.multicast, operation.copied_to))
    for number, buffer in asked:
        if number < 0:
            continue
        group = lanes.groups[number]
        if lanes.protocol is not DeviceProtocol.SIMPLE or rank not in group or buffer is None:
            yield f"rank {rank} asks for group {number}, of which it is not"
        elif len(set(chunks_before(buffer, group))) != 1:
            yield f"part {operation.part} is not at one place in {buffer.name} of group {number}"
    yield from _copy_faults(lanes, rank, operation)


def _copy_faults(lanes: BlockProgram, rank: int, operation: BlockOperation) -> Iterator[str]:
    if (operation.sums >= 0) != (operation.action is BlockAction.SUM):
        yield f"rank {rank} sums a group in no SUM"
    if (operation.multicast >= 0) != (operation.copied_to is not None):
        yield f"rank {rank} copies a store to no place"
    group = lanes.groups[operation.multicast] if operation.multicast >= 0 else ()
    messages = [lanes.messages[copy] for copy in operation.copies]
    if sorted(message.receiver for message in messages) != [one for one in group if one != rank]:
        yield f"rank {rank} copies part {operation.part} to others than its group"
    if any(message.target is not operation.copied_to for message in messages):
        yield f"rank {rank} copies part {operation.part} elsewhere than its messages go"
