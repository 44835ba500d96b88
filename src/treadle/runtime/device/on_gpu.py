"""Runs all ranks' thread blocks on one GPU, in one cooperative launch, to check and time them.

Never run on a GPU yet: the host's part is run on a runtime of threads in tests, the kernels are compiled.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from functools import partial
from typing import Unpack

from treadle.errors import MissingDependencyError, ScheduleError
from treadle.program.group_lists import ProgramGroups
from treadle.program.program import Program
from treadle.runtime.device.block_machine import BlockMachine, LaunchJob
from treadle.runtime.device.block_program import BlockProgram
from treadle.runtime.device.block_sizes import BlockLimits
from treadle.runtime.device.checked_blocks import measure_blocks
from treadle.runtime.device.kernel_build import build_for_gpu
from treadle.runtime.device.sized_blocks import STAGING_BYTES
from treadle.runtime.measured_sizes import SweepRow
from treadle.runtime.run_options import RunKeywords, RunOptions
from treadle.topologies.topology import Topology
from treadle.units import format_size

_THREADS = 512
"""Threads of a block. At most 16 blocks per rank: eight ranks fill the 132 processors of an H100."""
_LIMIT_S = 10.0
_ROOM = 300
"""Characters of what went wrong."""


class BlockGpu(BlockMachine):
    """Thread blocks of all ranks on the first GPU; staging and flags stay there between launches.

    Parameters
    ----------
    threads : int
        Of a block, at most 512.
    limit_s : float
        Longest wait within a launch.

    Raises
    ------
    MissingDependencyError
        Without nvcc and without a library that was built before, or without a GPU.
    ScheduleError
        If the number of threads is not possible.
    """

    def __init__(self, lanes: BlockProgram, *, threads: int = _THREADS, limit_s: float = _LIMIT_S) -> None:
        if not 1 <= threads <= _THREADS:
            raise ScheduleError(f"{threads} threads of a block on a GPU: expected 1 to {_THREADS}")
        super().__init__(lanes, threads=threads, limit_s=limit_s)
        self._library = _loaded()
        self._words = ctypes.create_string_buffer(_ROOM)
        n = lanes.program.n_ranks
        flags = (ctypes.c_void_p * n)(*(one.ctypes.data for one in self.flags))
        counts = (ctypes.c_int64 * n)(*map(len, self.flags))
        self._ranks = self._library.treadle_gpu_open(
            n, STAGING_BYTES[lanes.protocol], counts, flags, self._words, _ROOM
        )
        if not self._ranks:
            raise _missing_gpu(self._message())

    def __del__(self) -> None:
        if getattr(self, "_ranks", None):
            self._library.treadle_gpu_close(self._ranks)

    def staging_of(self, rank: int) -> int:  # noqa: ARG002 - the GPU has its own
        """The GPU keeps it."""
        return 0

    def launch(self, job: LaunchJob, codes: tuple[int, int, int], users: int, launches: int) -> float:
        """All launches of a job, one after another in a stream; seconds of the kernels."""
        milliseconds = self._library.treadle_gpu_run(
            self._ranks, ctypes.byref(job), *codes, users, launches, self.threads, self._words, _ROOM
        )
        if milliseconds < 0:
            raise ScheduleError(
                f"{len(self.lanes.lanes)} blocks of {self.threads} threads on the GPU: {self._message()}; "
                "all must be resident together: use fewer --lanes or threads"
            )
        return float(milliseconds) / 1e3

    def _message(self) -> str:
        return self._words.value.decode(errors="replace")


def copy_bandwidth(size: int) -> float:
    """Bytes per second that a copy within the GPU reads, and as many that it writes; the best of five.

    Parameters
    ----------
    size : int
        Bytes.

    Raises
    ------
    MissingDependencyError
        As `BlockGpu`.
    """
    words = ctypes.create_string_buffer(_ROOM)
    seconds = _loaded().treadle_gpu_copy_seconds(size, words, _ROOM)
    if seconds <= 0:
        raise MissingDependencyError(f"runtime device-gpu: {words.value.decode(errors='replace')}")
    return float(size / seconds)


def gpu_name() -> str:
    """Return the first GPU's name; MissingDependencyError as `BlockGpu`."""
    words = ctypes.create_string_buffer(_ROOM)
    failed = _loaded().treadle_gpu_name(words, _ROOM)
    said = words.value.decode(errors="replace")
    if failed:
        raise _missing_gpu(said)
    return said


def _missing_gpu(message: str) -> MissingDependencyError:
    return MissingDependencyError(f"runtime device-gpu: {message}; it needs a GPU and its driver")


def describe_gpu(size: int) -> str:
    """Describe the first GPU and its copy rate; MissingDependencyError as `BlockGpu`."""
    rate = copy_bandwidth(max(1, size)) / 1e9
    return f"{gpu_name()}, where a copy of {format_size(size)} reads {rate:.4g} GB/s and writes as much"


def _loaded() -> ctypes.CDLL:
    library = ctypes.CDLL(str(build_for_gpu()))
    whole, address = ctypes.c_int64, ctypes.c_void_p
    library.treadle_gpu_open.restype = address
    library.treadle_gpu_open.argtypes = [whole, whole, address, address, address, whole]
    library.treadle_gpu_close.restype = None
    library.treadle_gpu_close.argtypes = [address]
    library.treadle_gpu_run.restype = ctypes.c_double
    library.treadle_gpu_run.argtypes = [address, address, *[whole] * 3, address, *[whole] * 2, address, whole]
    library.treadle_gpu_copy_seconds.restype = ctypes.c_double
    library.treadle_gpu_copy_seconds.argtypes = [whole, address, whole]
    library.treadle_gpu_name.restype = whole
    library.treadle_gpu_name.argtypes = [address, whole]
    return library


def measure_on_gpu(
    program: Program | ProgramGroups,
    sizes: Iterable[int],
    *,
    on_row: Callable[[SweepRow], None] | None = None,
    switches: Topology | None = None,
    **keywords: Unpack[RunKeywords],
) -> list[SweepRow]:
    """Lower a program to thread blocks, prove it right, run all ranks on one GPU and check every element.

    See `measure_blocks`; ``keywords`` are the fields of `RunOptions`. MissingDependencyError as `BlockGpu`.
    """
    options = RunOptions(**keywords)
    machine = partial(BlockGpu, threads=options.threads or _THREADS)
    limits = BlockLimits(lanes=options.lanes, threads=options.threads, slice_bytes=options.slice_bytes)
    return measure_blocks(program, sizes, machine, options, limits=limits, on_row=on_row, switches=switches)
