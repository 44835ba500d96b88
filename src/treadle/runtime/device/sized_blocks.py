"""Lanes at one size: the tables that the kernel reads, places in bytes; and how staging is shared out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from treadle.arrays import FrozenArrays, Int64Array
from treadle.errors import ScheduleError
from treadle.program.program import Buffer, Program
from treadle.runtime.device.block_program import BlockMessage, BlockOperation, BlockProgram, DeviceProtocol
from treadle.schedules.collective import CollectiveKind
from treadle.units import format_size

UNIT_BYTES = 16
"""Parts and slices begin at multiples of this from where the user's shard begins."""

STAGING_BYTES = {DeviceProtocol.SIMPLE: 2**24, DeviceProtocol.LL: 2**24}
"""Of each protocol at each rank: 32 MB in all. LL lines never lie where other data have lain, so that no data
are ever taken for a flag."""

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
    operations, puts, waits, raises, lanes, groups : arrays of int64, shape (rows, columns of the struct)
    members : array of int64
        Ranks of the groups, one after the other.
    scratch_bytes : array of int64, shape (N,)
        What each rank's SCRATCH must have room for: the kernel's own, so that no user sees its size.
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
    lanes : BlockProgram
    count : int
        Elements of the collective's larger per-rank buffer, >= 0.
    element_bytes : int
        A power of two up to 8.
    slice_bytes : int
        Largest slice, at least 16; smaller where staging asks for it.
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
    slices, room = _slices(lanes, units, slice_bytes)
    places = flag_offsets(lanes)[0] if places is None else places
    return _Tables(lanes, ends, element_bytes, slices, _staged(lanes, room, slices), places).finished()


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


def _slices(lanes: BlockProgram, units: Sequence[int], slice_bytes: int) -> tuple[int, list[int]]:
    """Number of slices, and the bytes of a slice of each part as it is staged."""
    limit = STAGING_BYTES[lanes.protocol]
    if lanes.protocol is DeviceProtocol.LL:
        lines = [2 * UNIT_BYTES * count for count in units]
        needed = 2 * max(_needed(lanes, lines, 1))
        if needed > limit:
            raise ScheduleError(
                f"protocol LL needs {format_size(needed)} of staging at a rank, {format_size(limit)} are "
                f"there; use protocol Simple, or a smaller size"
            )
        return 1, lines
    longest = max(units, default=0) * UNIT_BYTES
    slices = max(1, -(-longest // max(slice_bytes, UNIT_BYTES)))
    if slices > MOST_SLICES:
        raise ScheduleError(
            f"slices of {format_size(slice_bytes)}: a part of {format_size(longest)} has {slices}, expected "
            f"at most {MOST_SLICES}; use larger slices"
        )
    while True:
        room = [-(-count // slices) * UNIT_BYTES for count in units]
        needed = max(_needed(lanes, room, slices))
        if needed <= limit:
            return slices, room
        if slices > MOST_SLICES // 2:
            raise ScheduleError(
                f"protocol Simple needs {format_size(needed)} of staging at a rank in slices of 16 bytes, "
                f"{format_size(limit)} are there; the schedule has too many messages"
            )
        slices *= 2


def _needed(lanes: BlockProgram, room: Sequence[int], slices: int) -> list[int]:
    """Bytes of staging of every rank; of LL, of one launch."""
    found = [0] * lanes.program.n_ranks
    for message in lanes.messages:
        if message.is_staged:
            found[message.receiver] += room[message.part] * _slots_used(lanes, message, slices)
    return found


def _slots_used(lanes: BlockProgram, message: BlockMessage, slices: int) -> int:
    return 1 if lanes.protocol is DeviceProtocol.LL else min(message.slots, slices)


def _staged(lanes: BlockProgram, room: Sequence[int], slices: int) -> list[tuple[int, int, int]]:
    """Of every message: its first slot, how many there are, and how far apart; 0, 1, 0 if not staged."""
    at = [0] * lanes.program.n_ranks
    found = []
    for message in lanes.messages:
        if not message.is_staged:
            found.append((0, 1, 0))
            continue
        slots, size = _slots_used(lanes, message, slices), room[message.part]
        is_ll = lanes.protocol is DeviceProtocol.LL
        start = at[message.receiver]
        at[message.receiver] += slots * size
        # LL takes the halves of its staging in turns, whatever the sizes of launches are
        found.append((start, 2, STAGING_BYTES[DeviceProtocol.LL] // 2) if is_ll else (start, slots, size))
    return found


def flag_offsets(lanes: BlockProgram) -> tuple[list[int], list[int]]:
    """Place of every flag among those of its rank, and how many each rank has."""
    sizes = [0] * lanes.program.n_ranks
    places = []
    for flag in lanes.flags:
        places.append(sizes[flag.rank])
        sizes[flag.rank] += 1
    return places, sizes


def offset_in(
    program: Program, rank: int, buffer: Buffer, element: Callable[[int], int]
) -> Callable[[int], int]:
    """The place of a chunk's first element in a rank's buffer, for chunks that it has."""
    ranges = program.ranges(rank, buffer)
    firsts = [first for first, _ in ranges]
    lengths = [element(past) - element(first) for first, past in ranges]
    begins = list(accumulate(lengths, initial=0))

    def row_of(chunk: int) -> int:
        number = bisect_right(firsts, chunk) - 1
        return element(chunk) - element(firsts[number]) + begins[number]

    return row_of


class _Tables:
    """Rows as they are written."""

    def __init__(
        self,
        lanes: BlockProgram,
        ends: Sequence[int],
        element_bytes: int,
        slices: int,
        staged: Sequence[tuple[int, int, int]],
        places: Sequence[int],
    ) -> None:
        self._lanes, self._ends, self._bytes = lanes, ends, element_bytes
        self._slices, self._staged, self._flags = slices, staged, places
        self._element = element = dict(zip(lanes.bounds, ends, strict=True))
        program = lanes.program
        self._places = {
            (rank, buffer): offset_in(program, rank, buffer, lambda chunk: element[chunk])
            for rank in range(program.n_ranks)
            for buffer in Buffer
        }
        self._puts: list[tuple[int, ...]] = []
        self._waits: list[tuple[int, ...]] = []
        self._raises: list[tuple[int, ...]] = []

    def finished(self) -> SizedBlocks:
        """All tables."""
        operations: list[tuple[int, ...]] = []
        rows: list[tuple[int, ...]] = []
        program, groups = self._lanes.program, self._lanes.groups
        for lane in self._lanes.lanes:
            enter = len(self._raises)
            self._raises += [self._raise(flag) for flag in lane.enters]
            rows.append((lane.rank, len(operations), len(lane.operations), enter, len(lane.enters)))
            operations += [self._row(lane.rank, operation) for operation in lane.operations]
        return SizedBlocks(
            _table(operations, 21),
            _table(self._puts, 5),
            _table(self._waits, 3),
            _table(self._raises, 2),
            _table(rows, 5),
            _table(list(zip(accumulate(map(len, groups), initial=0), map(len, groups), strict=False)), 2),
            np.array([rank for group in groups for rank in group], dtype=np.int64),
            np.array(
                [
                    program.uses_scratch(rank)
                    * self._bytes
                    * sum(
                        self._element[past] - self._element[first]
                        for first, past in program.ranges(rank, Buffer.SCRATCH)
                    )
                    for rank in range(program.n_ranks)
                ],
                dtype=np.int64,
            ),
            self._slices,
        )

    def _row(self, rank: int, operation: BlockOperation) -> tuple[int, ...]:
        part = operation.part
        length = self._ends[part + 1] - self._ends[part]
        per_unit = UNIT_BYTES // self._bytes
        units = -(-length // per_unit)
        message = self._staged[operation.message] if operation.message >= 0 else (0, 1, 0)
        first_put, first_wait, first_raise = len(self._puts), len(self._waits), len(self._raises)
        self._puts += [self._put(number) for number in operation.puts]
        self._waits += [(self._flags[one.flag], one.slices, one.launches) for one in operation.waits]
        self._raises += [self._raise(flag) for flag in operation.raises]
        return (
            int(operation.action),
            operation.stage,
            length,
            -(-units // self._slices) * per_unit,
            *self._at(rank, operation.source, part),
            *self._at(rank, operation.target, part),
            *message,
            first_put,
            len(operation.puts),
            first_wait,
            len(operation.waits),
            first_raise,
            len(operation.raises),
            operation.sums,
            operation.multicast,
            *self._at(rank, operation.copied_to, part),
        )

    def _at(self, rank: int, buffer: Buffer | None, part: int) -> tuple[int, int]:
        if buffer is None:
            return -1, 0
        return int(buffer), self._places[rank, buffer](self._lanes.bounds[part]) * self._bytes

    def _put(self, number: int) -> tuple[int, ...]:
        message = self._lanes.messages[number]
        if message.target is None:
            return message.receiver, _STAGING, *self._staged[number]
        return message.receiver, *self._at(message.receiver, message.target, message.part), 1, 0

    def _raise(self, flag: int) -> tuple[int, ...]:
        return self._lanes.flags[flag].rank, self._flags[flag]


def _table(rows: Sequence[tuple[int, ...]], columns: int) -> Int64Array:
    return np.array(rows, dtype=np.int64).reshape(len(rows), columns)
