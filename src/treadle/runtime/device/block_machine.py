"""Machine that runs thread-block programs: launches on memories of all ranks, numbered across calls."""

from __future__ import annotations

import ctypes
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.program.program import Buffer
from treadle.runtime.data import Reduction
from treadle.runtime.device.block_program import BlockAction, BlockProgram, DeviceProtocol, FlagPurpose
from treadle.runtime.device.sized_blocks import MOST_SLICES, SizedBlocks, flag_offsets
from treadle.runtime.memory import RankMemory

REDUCTION_CODES = {Reduction.SUM: 0, Reduction.AVG: 0, Reduction.MIN: 1, Reduction.MAX: 2}


class LaunchMemory(ctypes.Structure):
    """A rank's memory, as kernel/tables.hpp has it."""

    _fields_ = (
        ("buffers", ctypes.c_void_p * 3),
        ("staging", ctypes.c_void_p),
        ("flags", ctypes.c_void_p),
    )


class LaunchJob(ctypes.Structure):
    """A launch, as kernel/tables.hpp has it."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("operations", "puts", "waits", "raises", "lanes")),
        *((name, ctypes.c_void_p) for name in ("groups", "members", "multicast")),
        ("memory", ctypes.c_void_p),
        ("failure", ctypes.c_void_p),
        *((f"n_{name}", ctypes.c_int64) for name in ("operations", "puts", "waits", "raises")),
        *((name, ctypes.c_int64) for name in ("n_groups", "n_members")),
        *((name, ctypes.c_int64) for name in ("n_lanes", "n_ranks", "n_slices", "limit_ns")),
        ("launch", ctypes.c_uint64),
        ("signature", ctypes.c_uint64),
    )


def job_of(tables: SizedBlocks, lanes: Int64Array, n_ranks: int, limit_s: float) -> LaunchJob:
    """A launch of some rows of the tables' blocks, independent of the machine; all arrays must outlive it.

    No address reaches the memories of several ranks.
    """
    listed = (tables.operations, tables.puts, tables.waits, tables.raises)
    groups = (tables.groups, tables.members)
    places = [one.ctypes.data for one in (*listed, lanes, *groups)]
    lengths = [len(one) for one in (*listed, *groups, lanes)]
    limit_ns = math.ceil(limit_s * 1e9)
    return LaunchJob(*places, None, None, None, *lengths, n_ranks, tables.slices, limit_ns, 0, 0)


class LaunchUser(ctypes.Structure):
    """User actions at a rank between launches, as in kernel/user.hpp."""

    _fields_ = (
        ("inputs", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
        *((f"{name}_bytes", ctypes.c_int64) for name in ("input", "output", "scratch")),
        ("is_in_place", ctypes.c_int64),
    )


class BlockMachine(ABC):
    """Runs the thread blocks of a program.

    Parameters
    ----------
    threads : int
        Of a block.
    limit_s : float
        Longest wait.
    """

    def __init__(self, lanes: BlockProgram, *, threads: int, limit_s: float) -> None:
        self.lanes, self.threads, self.limit_s = lanes, threads, limit_s
        places, sizes = flag_offsets(lanes)
        self.flags = [np.zeros(max(1, size), dtype=np.uint64) for size in sizes]
        """Memories of each rank before the first launch."""
        for place, flag in zip(places, lanes.flags, strict=True):
            if flag.purpose is FlagPurpose.ENTERED:
                self.flags[flag.rank][place] = MOST_SLICES  # of launch 0, which was before all
        self._next_launch = 1

    @abstractmethod
    def staging_of(self, rank: int) -> int:
        """Address of a rank's staging; 0 where the machine keeps it to itself."""

    @abstractmethod
    def launch(self, job: LaunchJob, codes: tuple[int, int, int], users: int, launches: int) -> float:
        """All launches of a job; seconds. `codes` are of element, reduction and protocol.

        Raises
        ------
        ScheduleError
            If the launches cannot be had.
        """

    def run(
        self,
        tables: SizedBlocks,
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
        tables : SizedBlocks
            Of these thread blocks.
        memories : sequence of RankMemory
            INPUT and OUTPUT of the thread blocks; their SCRATCH is not used.
        inputs, outputs : sequence of N sequences of arrays
            Of every rank and launch: copied to INPUT before it, and from OUTPUT after it.
        element : int
            Code of the kernel.

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
        rows = (LaunchMemory * len(memories))()
        users = (LaunchUser * len(memories))()
        kept: list[Any] = []
        for rank, memory in enumerate(memories):
            arrays = {**memory.arrays, Buffer.SCRATCH: aligned(int(tables.scratch_bytes[rank]))}
            kept.append(arrays)
            for buffer in Buffer:
                rows[rank].buffers[int(buffer)] = arrays[buffer].ctypes.data
            rows[rank].staging = self.staging_of(rank)
            rows[rank].flags = self.flags[rank].ctypes.data
            pointers = [
                (ctypes.c_void_p * launches)(*(a.ctypes.data for a in of[rank])) for of in (inputs, outputs)
            ]
            kept += pointers
            users[rank].inputs, users[rank].outputs = (ctypes.addressof(one) for one in pointers)
            for name, buffer in zip(("input", "output", "scratch"), Buffer, strict=True):
                setattr(users[rank], f"{name}_bytes", arrays[buffer].nbytes)
            users[rank].is_in_place = self.lanes.program.in_place
        failure = np.zeros(5, dtype=np.int64)
        job = job_of(tables, tables.lanes, len(memories), self.limit_s)
        job.memory, job.failure = ctypes.addressof(rows), failure.ctypes.data
        job.launch = self._next_launch
        self._next_launch += launches
        codes = (element, REDUCTION_CODES[reduction], self.lanes.protocol is DeviceProtocol.LL)
        seconds = self.launch(job, codes, ctypes.addressof(users), launches)
        if failure[0]:
            _, _, lane, number, _ = failure.tolist()
            raise ScheduleError(given_up(self.lanes, lane, number - int(tables.lanes[lane, 1]), self.limit_s))
        return seconds


def given_up(lanes: BlockProgram, lane: int, number: int, limit_s: float) -> str:
    """A wait that was given up, in words: collective, protocol, rank and peers.

    Parameters
    ----------
    lane, number : int
        Thread block, and its operation.
    """
    operation = lanes.lanes[lane].operations[number]
    peers = {lanes.messages[put].receiver for put in operation.puts}
    if operation.message >= 0:
        peers.add(lanes.messages[operation.message].sender)
    for group in {operation.sums, operation.multicast} - {-1}:
        peers.update(set(lanes.groups[group]) - {lanes.lanes[lane].rank})
    if operation.action is BlockAction.RECLAIM:
        flags = {wait.flag for wait in operation.waits}
        peers |= {own.rank for own in lanes.lanes for one in own.operations if flags.intersection(one.raises)}
    named = ", ".join(map(str, sorted(peers)))
    return (
        f"{lanes.program.kind}, protocol {lanes.protocol}: rank {lanes.lanes[lane].rank}, lane {lane} waited "
        f"{limit_s:g} s for rank {named} and gave up ({operation.action.name} of part {operation.part})"
    )


def aligned(size: int) -> NDArray[np.uint8]:
    """Zeros, aligned as allocations of a GPU are; pages that are never touched cost nothing."""
    room = np.zeros(size + 256, dtype=np.uint8)
    start = -room.ctypes.data % 256
    return room[start : start + size]
