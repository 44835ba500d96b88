"""Runs thread blocks as threads of this process: the kernel's own code, with data of several launches.

Every rank goes from launch to launch by itself, as streams do: between two it takes what is in OUTPUT, leaves
rubbish there and puts the next input in place. So a block may be a launch ahead of its peers, and what only
luck held back shows.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import perf_counter
from typing import Unpack

from treadle.errors import ScheduleError
from treadle.program.group_lists import ProgramGroups
from treadle.program.program import Program
from treadle.runtime.device.block_machine import BlockMachine, LaunchJob, aligned
from treadle.runtime.device.block_program import BlockProgram
from treadle.runtime.device.block_sizes import BlockLimits
from treadle.runtime.device.checked_blocks import measure_blocks
from treadle.runtime.device.kernel_build import build_threads
from treadle.runtime.device.sized_blocks import STAGING_BYTES
from treadle.runtime.measured_sizes import SweepRow
from treadle.runtime.run_options import RunKeywords, RunOptions
from treadle.topologies.topology import Topology

_MOST_THREADS = 4096


class BlockThreads(BlockMachine):
    """Thread blocks as threads of this process.

    Parameters
    ----------
    threads : int
        Of a block.
    flags : sequence of str
        More for the C++ compiler.

    Raises
    ------
    MissingDependencyError
        Without a C++ compiler.
    """

    def __init__(
        self, lanes: BlockProgram, *, threads: int = 1, limit_s: float = 60.0, flags: Sequence[str] = ()
    ) -> None:
        if not 1 <= threads <= _MOST_THREADS // len(lanes.lanes):
            raise ScheduleError(
                f"{len(lanes.lanes)} thread blocks of {threads} threads: expected 1 to {_MOST_THREADS} "
                "threads in total"
            )
        super().__init__(lanes, threads=threads, limit_s=limit_s)
        library = ctypes.CDLL(str(build_threads(flags=flags)))
        self._emulate = library.treadle_lanes_emulate
        self._emulate.restype = ctypes.c_int64
        self._emulate.argtypes = [
            *(ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64),
            *(ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64),
        ]
        self.vectors_moved = library.treadle_vectors_moved
        self.vectors_moved.restype = ctypes.c_int64
        self._staging = [aligned(STAGING_BYTES[lanes.protocol]) for _ in range(lanes.program.n_ranks)]

    def staging_of(self, rank: int) -> int:
        """Address of a rank's staging."""
        return int(self._staging[rank].ctypes.data)

    def launch(self, job: LaunchJob, codes: tuple[int, int, int], users: int, launches: int) -> float:
        """All launches of a job, without a pause; seconds."""
        begin = perf_counter()
        status = self._emulate(ctypes.addressof(job), *codes, users, launches, self.threads)
        seconds = perf_counter() - begin
        if status:
            raise ScheduleError(
                f"{len(self.lanes.lanes) * self.threads} threads are not available; use fewer --lanes"
            )
        return seconds


def measure_emulated(
    program: Program | ProgramGroups,
    sizes: Iterable[int],
    *,
    on_row: Callable[[SweepRow], None] | None = None,
    switches: Topology | None = None,
    **keywords: Unpack[RunKeywords],
) -> list[SweepRow]:
    """Lower a program to thread blocks, prove it right, run it as threads and check every element.

    See `measure_blocks`; the initiating rank performs the switch operations, in all ranks' memory.
    ``keywords`` are the fields of `RunOptions`. MissingDependencyError without a C++ compiler.
    """
    options = RunOptions(**keywords)
    lanes, threads = options.lanes or 2, options.threads or 1
    limits = BlockLimits(lanes=lanes, threads=threads, slice_bytes=options.slice_bytes)
    machine = partial(BlockThreads, threads=threads)
    return measure_blocks(program, sizes, machine, options, limits=limits, on_row=on_row, switches=switches)
