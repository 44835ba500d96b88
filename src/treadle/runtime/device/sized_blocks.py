"""Thread-block programs at one size: the kernel's tables, offsets in bytes; and the division of staging."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from treadle.arrays import FrozenArrays, Int64Array
from treadle.errors import ScheduleError
from treadle.program.program import Buffer, Program
from treadle.runtime.device.block_program import BlockOperation, BlockProgram, DeviceProtocol
from treadle.runtime.memory import position_in
from treadle.schedules.collective import CollectiveKind
from treadle.units import format_size

UNIT_BYTES = 16
"""Parts and slices begin at multiples of this from where the user's shard begins."""

STAGING_BYTES = {DeviceProtocol.SIMPLE: 2**24, DeviceProtocol.LL: 2**24}
"""Staging of each protocol at each rank: 32 MB in total. LL lines never lie where other data have lain, so
that data are never taken for a flag."""

SLICE_BYTES = 2**18
"""Default largest slice."""

_STAGING = 3
MOST_SLICES = 2**20 - 1
"""Flags of a launch are its number times 2^20 and a slice: more would be those of the next launch."""


@dataclass(frozen=True, eq=False)
class SizedBlocks(FrozenArrays):
    """The tables of kernel/tables.hpp.

    Parameters
    ----------
    members : array of int64
        Ranks of the groups, one after the other.
    scratch_bytes : array of int64, shape (N,)
        Size of each rank's SCRATCH, which is the kernel's own, so that no user sees it.
    slices : int
        Of every part.
    """

    operations: Int64Array
    puts: Int64Array
    waits: Int64Array
    raises: Int64Array
    lanes: Int64Array
    groups: Int64Array
    members: Int64Array
    scratch_bytes: Int64Array
    slices: int

    def __post_init__(self) -> None:
        self._freeze(
            "lanes", axes=dict.fromkeys(("operations", "puts", "waits", "raises", "lanes", "groups"), 2)
        )


def at_size(
    lanes: BlockProgram,
    count: int,
    *,
    element_bytes: int,
    slice_bytes: int = SLICE_BYTES,
    places: Sequence[int] | None = None,
) -> SizedBlocks:
    """Make the tables for a number of elements.

    Parameters
    ----------
    count : int
        Elements of the collective's larger per-rank buffer, >= 0.
    element_bytes : int
        A power of two up to 8.
    slice_bytes : int
        Largest slice, at least 16; smaller if staging requires it.
    places : sequence of int, optional
        Of every flag among those of its rank. Default: those of `flag_offsets`.

    Raises
    ------
    ScheduleError
        If staging cannot hold it: LL beyond its sizes.
    """
    ends = part_ends(lanes, count, element_bytes=element_bytes)
    lengths = [past - first for first, past in pairwise(ends)]
    units = [-(-length * element_bytes // UNIT_BYTES) for length in lengths]
    slices, staged = _choose_slices(lanes, units, slice_bytes)
    flags = flag_offsets(lanes)[0] if places is None else places
    return _tables(lanes, ends, element_bytes, slices, staged, flags)


def part_ends(lanes: BlockProgram, count: int, *, element_bytes: int) -> list[int]:
    """First element of every part, and the end of the last.

    Shards, where users see them, are where the collective's definition has them; what is between their ends
    is cut in units of 16 bytes.

    Examples
    --------
    Of ten floats in three chunks that users do not see, the first has none, the others four and six: one
    unit and two, of which the last is not full.
    """
    program, per_unit = lanes.program, UNIT_BYTES // element_bytes
    is_seen = program.kind in (
        CollectiveKind.ALLGATHER,
        CollectiveKind.REDUCE_SCATTER,
        CollectiveKind.ALLTOALL,
    )
    shards = sorted({0, program.n_addresses, *(program.shard_offset.tolist() if is_seen else ())})
    found: list[int] = []
    for chunk in lanes.bounds:
        place = min(bisect_right(shards, chunk) - 1, len(shards) - 2)
        low, high = shards[place], shards[place + 1]
        first, past = program.element(low, count), program.element(high, count)
        units = -(-(past - first) // per_unit)
        found.append(min(first + (chunk - low) * units // (high - low) * per_unit, past))
    return found


_Slots = tuple[int, int, int]
"""First slot, number and stride of the slots of a message; 0, 1, 0 if it is not staged."""


def _choose_slices(lanes: BlockProgram, units: Sequence[int], slice_bytes: int) -> tuple[int, list[_Slots]]:
    """Number of slices, and where messages are staged."""
    limit = STAGING_BYTES[lanes.protocol]
    if lanes.protocol is DeviceProtocol.LL:
        staged, used = _stage_messages(lanes, [2 * UNIT_BYTES * count for count in units], 1)
        needed = 2 * used
        if needed > limit:
            raise ScheduleError(
                f"protocol LL needs {format_size(needed)} of staging at a rank, {format_size(limit)} are "
                f"there; use protocol Simple, or a smaller size"
            )
        return 1, staged
    longest = max(units, default=0) * UNIT_BYTES
    slices = max(1, -(-longest // max(slice_bytes, UNIT_BYTES)))
    if slices > MOST_SLICES:
        raise ScheduleError(
            f"slices of {format_size(slice_bytes)}: a part of {format_size(longest)} has {slices}, expected "
            f"at most {MOST_SLICES}; use larger slices"
        )
    while True:
        staged, needed = _stage_messages(lanes, [-(-count // slices) * UNIT_BYTES for count in units], slices)
        if needed <= limit:
            return slices, staged
        if slices > MOST_SLICES // 2:
            raise ScheduleError(
                f"protocol Simple needs {format_size(needed)} of staging at a rank in slices of 16 bytes, "
                f"{format_size(limit)} are there; the schedule has too many messages"
            )
        slices *= 2


def _stage_messages(lanes: BlockProgram, room: Sequence[int], slices: int) -> tuple[list[_Slots], int]:
    """Slots of every message, and the most bytes of a rank's staging that a launch uses.

    `room` is the bytes of a slice of each part as it is staged.
    """
    used = [0] * lanes.program.n_ranks
    found = []
    is_ll = lanes.protocol is DeviceProtocol.LL
    for message in lanes.messages:
        if not message.is_staged:
            found.append((0, 1, 0))
            continue
        slots, size = 1 if is_ll else min(message.slots, slices), room[message.part]
        start = used[message.receiver]
        used[message.receiver] += slots * size
        # LL takes the halves of its staging in turns, whatever the sizes of launches are
        found.append((start, 2, STAGING_BYTES[DeviceProtocol.LL] // 2) if is_ll else (start, slots, size))
    return found, max(used)


def flag_offsets(lanes: BlockProgram) -> tuple[list[int], list[int]]:
    """Place of every flag among those of its rank, and how many each rank has."""
    sizes = [0] * lanes.program.n_ranks
    places = []
    for flag in lanes.flags:
        places.append(sizes[flag.rank])
        sizes[flag.rank] += 1
    return places, sizes


_Rows = list[tuple[int, ...]]


def _tables(
    lanes: BlockProgram,
    ends: Sequence[int],
    element_bytes: int,
    slices: int,
    staged: Sequence[_Slots],
    flags: Sequence[int],
) -> SizedBlocks:
    element = dict(zip(lanes.bounds, ends, strict=True))
    at = _places(lanes.program, element, ends, element_bytes)
    per_unit = UNIT_BYTES // element_bytes
    operations, rows, puts, waits, raises = _Rows(), _Rows(), _Rows(), _Rows(), _Rows()

    def append(rows: _Rows, new: Iterable[tuple[int, ...]]) -> tuple[int, int]:
        """Place and number of the new rows."""
        first = len(rows)
        rows += new
        return first, len(rows) - first

    def put_row(number: int) -> tuple[int, ...]:
        message = lanes.messages[number]
        if message.target is None:
            return message.receiver, _STAGING, *staged[number]
        return message.receiver, *at(message.receiver, message.target, message.part), 1, 0

    def raise_rows(raised: Sequence[int]) -> Iterable[tuple[int, int]]:
        return ((lanes.flags[flag].rank, flags[flag]) for flag in raised)

    def row(rank: int, one: BlockOperation) -> tuple[int, ...]:
        length = ends[one.part + 1] - ends[one.part]
        units = -(-length // per_unit)
        return (
            *(int(one.action), one.stage, length, -(-units // slices) * per_unit),
            *at(rank, one.source, one.part),
            *at(rank, one.target, one.part),
            *(staged[one.message] if one.message >= 0 else (0, 1, 0)),
            *append(puts, map(put_row, one.puts)),
            *append(waits, ((flags[wait.flag], wait.slices, wait.launches) for wait in one.waits)),
            *append(raises, raise_rows(one.raises)),
            *(one.sums, one.multicast),
            *at(rank, one.copied_to, one.part),
        )

    for lane in lanes.lanes:
        entered = append(raises, raise_rows(lane.enters))
        done = append(operations, (row(lane.rank, operation) for operation in lane.operations))
        rows.append((lane.rank, *done, *entered))
    sizes = list(map(len, lanes.groups))
    scratch = [
        lanes.program.uses_scratch(rank)
        * sum(past - first for first, past in _ranges(lanes.program, element, rank, Buffer.SCRATCH))
        for rank in range(lanes.program.n_ranks)
    ]
    return SizedBlocks(
        *(_table(operations, 21), _table(puts, 5), _table(waits, 3), _table(raises, 2), _table(rows, 5)),
        groups=_table(list(zip(accumulate(sizes, initial=0), sizes, strict=False)), 2),
        members=np.array([rank for group in lanes.groups for rank in group], dtype=np.int64),
        scratch_bytes=np.array(scratch, dtype=np.int64) * element_bytes,
        slices=slices,
    )


def _places(
    program: Program, element: Mapping[int, int], ends: Sequence[int], element_bytes: int
) -> Callable[[int, Buffer | None, int], tuple[int, int]]:
    """Return the buffer's number and the offset in bytes, -1 and 0 without a buffer, of a rank's part."""
    positions = {
        (rank, buffer): position_in(_ranges(program, element, rank, buffer))
        for rank in range(program.n_ranks)
        for buffer in Buffer
    }

    def locate(rank: int, buffer: Buffer | None, part: int) -> tuple[int, int]:
        if buffer is None:
            return -1, 0
        return int(buffer), positions[rank, buffer](ends[part]) * element_bytes

    return locate


def _ranges(program: Program, element: Mapping[int, int], rank: int, buffer: Buffer) -> list[tuple[int, int]]:
    """Elements of a rank's buffer; `element` has the first of each part."""
    return [(element[first], element[past]) for first, past in program.ranges(rank, buffer)]


def _table(rows: Sequence[tuple[int, ...]], columns: int) -> Int64Array:
    return np.array(rows, dtype=np.int64).reshape(len(rows), columns)
