"""Runs lanes as threads of this process: the kernel's own code, with data of several launches in a row.

Every rank goes from launch to launch by itself, as streams do: between two it takes what is in OUTPUT, leaves
rubbish there and puts the next input in place. So a lane may be a launch ahead of its peers, and what only
luck held back shows.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from treadle.errors import ScheduleError
from treadle.program.group_lists import ProgramGroups, as_groups
from treadle.program.program import Buffer, Program
from treadle.runtime.data import ElementType, Pattern, Reduction, make_pattern, numpy_dtype
from treadle.runtime.device.happens_before import judge_lanes
from treadle.runtime.device.kernel_build import build_threads
from treadle.runtime.device.lane_lowering import lower_to_lanes
from treadle.runtime.device.lane_program import DeviceProtocol, FlagPurpose, LaneProgram
from treadle.runtime.device.sized_lanes import (
    SLICE_BYTES,
    STAGING_BYTES,
    SizedLanes,
    at_size,
    flag_places,
)
from treadle.runtime.measured_sizes import SweepRow, make_row, worst_of
from treadle.runtime.memory import Layout, RankMemory, allocate, count_wrong, fill_input
from treadle.runtime.run_options import RunKeywords, RunOptions

LAUNCHES = 4
"""In a row at each size, each with data of its own."""

_ELEMENT_CODES = {
    ElementType.FLOAT32: 0,
    ElementType.FLOAT16: 1,
    ElementType.BFLOAT16: 2,
    ElementType.INT32: 3,
    ElementType.INT64: 4,
}
_REDUCTION_CODES = {Reduction.SUM: 0, Reduction.AVG: 0, Reduction.MIN: 1, Reduction.MAX: 2}
_FOUR_LAUNCHES_BYTES = 2**27
_ALL_SLICES = 2**20 - 1
_MOST_THREADS = 4096


class _Memory(ctypes.Structure):
    """A rank's memory, as kernel/tables.hpp has it."""

    _fields_ = (
        ("buffers", ctypes.c_void_p * 3),
        ("staging", ctypes.c_void_p),
        ("flags", ctypes.c_void_p),
    )


class _Job(ctypes.Structure):
    """A launch, as kernel/tables.hpp has it."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("operations", "puts", "waits", "raises", "lanes")),
        ("memory", ctypes.c_void_p),
        ("failure", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("n_lanes", "n_ranks", "n_slices", "limit_ns")),
        ("launch", ctypes.c_uint64),
    )


class _User(ctypes.Structure):
    """What happens at a rank between launches, as kernel/lanes.cpp has it."""

    _fields_ = (
        ("inputs", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
        *((f"{name}_bytes", ctypes.c_int64) for name in ("input", "output", "scratch")),
        ("is_in_place", ctypes.c_int64),
    )


class LaneThreads:
    """Staging and flags of all ranks of a program's lanes; launches are numbered on from call to call.

    Parameters
    ----------
    lanes : LaneProgram
    threads : int
        Of a block.
    limit_s : float
    flags : sequence of str
        More for the C++ compiler.

    Raises
    ------
    MissingDependencyError
        Without a C++ compiler.
    """

    def __init__(
        self, lanes: LaneProgram, *, threads: int = 1, limit_s: float = 60.0, flags: Sequence[str] = ()
    ) -> None:
        if not 1 <= threads <= _MOST_THREADS // len(lanes.lanes):
            raise ScheduleError(
                f"{len(lanes.lanes)} lanes of {threads} threads: expected 1 to {_MOST_THREADS} threads in all"
            )
        self.lanes, self.threads, self.limit_s = lanes, threads, limit_s
        library = ctypes.CDLL(str(build_threads(flags=flags)))
        self._emulate = library.treadle_lanes_emulate
        self._emulate.restype = ctypes.c_int64
        self._emulate.argtypes = [
            *(ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64),
            *(ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64),
        ]
        n = lanes.program.n_ranks
        # aligned as allocations of a GPU are; pages that are never touched cost nothing
        self._staging = [_aligned(STAGING_BYTES[lanes.protocol]) for _ in range(n)]
        places, sizes = flag_places(lanes)
        self._flags = [np.zeros(max(1, size), dtype=np.uint64) for size in sizes]
        for place, flag in zip(places, lanes.flags, strict=True):
            if flag.purpose is FlagPurpose.ENTERED:
                self._flags[flag.rank][place] = _ALL_SLICES  # of launch 0, which was before all
        self._next_launch = 1

    def run(
        self,
        tables: SizedLanes,
        memories: Sequence[RankMemory],
        inputs: Sequence[Sequence[NDArray[Any]]],
        outputs: Sequence[Sequence[NDArray[Any]]],
        *,
        element: int,
        reduction: Reduction,
    ) -> float:
        """Launch as often as there are inputs, without a pause.

        Parameters
        ----------
        tables : SizedLanes
            Of these lanes.
        memories : sequence of RankMemory
            INPUT and OUTPUT that the lanes work on; their SCRATCH is not used.
        inputs, outputs : sequence of N sequences of arrays
            Of every rank and launch: copied to INPUT before it, and from OUTPUT after it.
        element : int
            Code of the kernel.
        reduction : Reduction

        Returns
        -------
        float
            Seconds.

        Raises
        ------
        ScheduleError
            If a wait was given up, or threads cannot be had.
        """
        launches = len(inputs[0])
        rows = (_Memory * len(memories))()
        users = (_User * len(memories))()
        kept: list[Any] = []
        for rank, memory in enumerate(memories):
            arrays = {**memory.arrays, Buffer.SCRATCH: _aligned(int(tables.scratch_bytes[rank]))}
            kept.append(arrays)
            for buffer in Buffer:
                rows[rank].buffers[int(buffer)] = arrays[buffer].ctypes.data
            rows[rank].staging = self._staging[rank].ctypes.data
            rows[rank].flags = self._flags[rank].ctypes.data
            pointers = [
                (ctypes.c_void_p * launches)(*(a.ctypes.data for a in of[rank])) for of in (inputs, outputs)
            ]
            kept += pointers
            users[rank].inputs, users[rank].outputs = (ctypes.addressof(one) for one in pointers)
            for name, buffer in zip(("input", "output", "scratch"), Buffer, strict=True):
                setattr(users[rank], f"{name}_bytes", arrays[buffer].nbytes)
            users[rank].is_in_place = self.lanes.program.in_place
        failure = np.zeros(5, dtype=np.int64)
        job = _Job(
            *(one.ctypes.data for one in (tables.operations, tables.puts, tables.waits, tables.raises)),
            tables.lanes.ctypes.data,
            ctypes.addressof(rows),
            failure.ctypes.data,
            len(self.lanes.lanes),
            len(memories),
            tables.slices,
            math.ceil(self.limit_s * 1e9),
            self._next_launch,
        )
        self._next_launch += launches
        begin = perf_counter()
        status = self._emulate(
            ctypes.addressof(job),
            element,
            _REDUCTION_CODES[reduction],
            self.lanes.protocol is DeviceProtocol.LL,
            ctypes.addressof(users),
            launches,
            self.threads,
        )
        seconds = perf_counter() - begin
        if status:
            raise ScheduleError(
                f"{len(self.lanes.lanes) * self.threads} threads cannot be had; use fewer lanes"
            )
        if failure[0]:
            raise ScheduleError(self._given_up(tables, failure.tolist()))
        return seconds

    def _given_up(self, tables: SizedLanes, failure: Sequence[int]) -> str:
        _, rank, lane, number, _ = failure
        operation = self.lanes.lanes[lane].operations[number - int(tables.lanes[lane, 1])]
        peers = {self.lanes.messages[put].receiver for put in operation.puts}
        if operation.message >= 0:
            peers.add(self.lanes.messages[operation.message].sender)
        named = ", ".join(map(str, sorted(peers)))
        return (
            f"{self.lanes.program.kind}, protocol {self.lanes.protocol}: rank {rank}, lane {lane} waited "
            f"{self.limit_s:g} s for rank {named} and gave up "
            f"({operation.action.name} of part {operation.part})"
        )


def measure_emulated(
    program: Program | ProgramGroups,
    sizes: Iterable[int],
    *,
    on_row: Callable[[SweepRow], None] | None = None,
    **options: Unpack[RunKeywords],
) -> list[SweepRow]:
    """Make a program into lanes, prove them right, run them as threads at every size and check every element.

    Parameters
    ----------
    program : Program or ProgramGroups
        Of several groups: one runs after the other.
    sizes : iterable of int
        Bytes of the larger per-rank buffer, rounded down to whole elements.
    on_row : callable, optional
        Called with every row as it is ready.
    **options
        The fields of `RunOptions`. A time is the mean of `LAUNCHES` launches in a row.

    Returns
    -------
    list of SweepRow
        For each size, one of each protocol.

    Raises
    ------
    ScheduleError
        If the program cannot be executed, lanes are not proved right, or a wait was given up.
    MissingDependencyError
        Without a C++ compiler.
    """
    asked = RunOptions(**options)
    programs = as_groups(program).programs
    groups = [[_Judged(one, protocol, asked) for one in programs] for protocol in asked.device_protocols]
    rows: list[SweepRow] = []
    for size in sizes:
        for group in groups:
            count = size // asked.element.n_bytes
            done = [one.checked_launches(count, asked, number) for number, one in enumerate(group)]
            wrong = [found for found, _ in done]
            row = make_row(
                programs[0],
                count,
                [sum(seconds for _, seconds in done)],
                sum(wrong),
                element=asked.element,
                reduction=asked.reduction,
                worst_group=worst_of(wrong),
            )
            rows.append(replace(row, protocol=group[0].threads.lanes.protocol.value))
            if on_row is not None:
                on_row(rows[-1])
    return rows


class _Judged:
    """A program's lanes of one protocol, with their threads; for each number of slices proved right once."""

    def __init__(self, program: Program, protocol: DeviceProtocol, asked: RunOptions) -> None:
        averages = asked.reduction is Reduction.AVG
        lanes = lower_to_lanes(program, protocol, lanes=asked.lanes, averages=averages)
        self.threads = LaneThreads(lanes, threads=asked.threads)
        self._most_slots = max((message.slots for message in lanes.messages), default=0)
        self._proved: set[int] = set()

    def checked_launches(self, count: int, asked: RunOptions, group: int) -> tuple[int, float]:
        """Wrong elements of all ranks and launches, and seconds of a launch."""
        lanes = self.threads.lanes
        tables = at_size(
            lanes, count, element_bytes=asked.element.n_bytes, slice_bytes=asked.slices_of(SLICE_BYTES)
        )
        self._prove(min(tables.slices, self._most_slots + 2))
        layout = Layout(lanes.program, count)
        memories = [
            allocate(layout, rank, numpy_dtype(asked.element)) for rank in range(lanes.program.n_ranks)
        ]
        data = sum(one.nbytes for memory in memories for one in memory.arrays.values())
        launches = LAUNCHES if data <= _FOUR_LAUNCHES_BYTES else 2
        patterns = [_pattern(lanes.program, count, asked, group, launch) for launch in range(launches)]
        inputs = [[_input(rank, memory, one) for one in patterns] for rank, memory in enumerate(memories)]
        outputs = [[np.empty_like(memory.arrays[Buffer.OUTPUT]) for _ in patterns] for memory in memories]
        seconds = self.threads.run(
            tables,
            memories,
            inputs,
            outputs,
            element=_ELEMENT_CODES[asked.element],
            reduction=asked.reduction,
        )
        wrong = 0
        for rank, memory in enumerate(memories):
            for pattern, output in zip(patterns, outputs[rank], strict=True):
                memory.arrays[Buffer.OUTPUT][...] = output
                wrong += count_wrong(layout, rank, memory, pattern)
        return wrong, seconds / launches

    def _prove(self, slices: int) -> None:
        if slices in self._proved:
            return
        lanes = self.threads.lanes
        found = judge_lanes(lanes, slices=slices)
        if found:
            raise ScheduleError(f"lanes of protocol {lanes.protocol} are not right: {found[0]}")
        self._proved.add(slices)


def _pattern(program: Program, count: int, asked: RunOptions, group: int, launch: int) -> Pattern:
    return make_pattern(
        program.n_ranks,
        count,
        element=asked.element,
        reduction=asked.reduction,
        reduces=program.kind.reduces,
        seed=asked.seed + 1000 * launch + group,
    )


def _input(rank: int, memory: RankMemory, pattern: Pattern) -> NDArray[Any]:
    fill_input(rank, memory, pattern)
    return memory.arrays[Buffer.INPUT].copy()


def _aligned(size: int) -> NDArray[np.uint8]:
    room = np.zeros(size + 256, dtype=np.uint8)
    start = -room.ctypes.data % 256
    return room[start : start + size]
