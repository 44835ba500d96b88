"""Memory of GPUs that all ranks of a group reach: one small interface, and who provides it.

A rank's block holds its staging and its flags. Each rank has addresses of all blocks as they are mapped in
its process; kernels store there and nobody is asked.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from treadle.errors import MissingDependencyError, ScheduleError
from treadle.runtime.device.kernel_build import build_for_gpu
from treadle.runtime.device.lane_program import DeviceProtocol
from treadle.runtime.device.sized_lanes import STAGING_BYTES

Exchange = Callable[[bytes], list[bytes]]
"""Gives each rank what all ranks have given, in the order of ranks; all call it as often."""

FLAGS_AT = sum(STAGING_BYTES.values())
"""Where in a block the flags begin: behind the staging of Simple, then of LL."""
STAGING_AT = {DeviceProtocol.SIMPLE: 0, DeviceProtocol.LL: STAGING_BYTES[DeviceProtocol.SIMPLE]}
MOST_FLAGS = 2**19
"""Of a rank, of all programs of its group."""
BLOCK_BYTES = FLAGS_AT + 8 * MOST_FLAGS
_ENTERED_BEFORE = 2**20 - 1
_ROOM = 300


class PeerMemory(ABC):
    """A block of `BLOCK_BYTES` at each rank.

    Parameters
    ----------
    rank : int
    exchange : callable
        See `Exchange`; used at set-up only.
    words : str
        What it is, for the log.

    Notes
    -----
    Flags of ranks that have entered are those of launch 0 when this is made; everything else is 0.
    """

    def __init__(self, rank: int, exchange: Exchange, words: str) -> None:
        self.rank, self.exchange, self.words = rank, exchange, words
        self.blocks: tuple[int, ...] = ()
        """Address of each rank's block in this process."""
        self.multicast = 0
        """Where a store reaches all blocks and a load adds them; 0: nowhere."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back; no lane of any rank may use it any more."""

    def barrier(self) -> None:
        """Wait until all ranks have called it.

        Raises
        ------
        MissingDependencyError
            If a rank has given up.
        """
        self._agree("")

    def _agree(self, problem: str) -> None:
        """Fail at all ranks alike, with the words of the first that has a problem."""
        for rank, said in enumerate(self.exchange(problem.encode())):
            if said:
                raise MissingDependencyError(f"{self.words}: rank {rank}: {said.decode(errors='replace')}")

    def _begin(self, n_ranks: int) -> None:
        """Write this rank's first flags, when its block is there and zeroed."""
        entered = np.full(n_ranks, _ENTERED_BEFORE, dtype=np.uint64)
        at = self.blocks[self.rank] + FLAGS_AT
        gpu_library().said("treadle_peer_write", at, entered.ctypes.data, entered.nbytes)


class IpcMemory(PeerMemory):
    """Memory of several processes of one host, by CUDA's handles.

    Parameters
    ----------
    rank : int
    exchange : callable
    device : int
        Of this process.

    Raises
    ------
    MissingDependencyError
        At all ranks, if one has no GPU, or cannot open a peer's memory.
    """

    def __init__(self, rank: int, exchange: Exchange, device: int = 0) -> None:
        super().__init__(rank, exchange, "CUDA IPC")
        self._library = gpu_library()
        self._own = 0
        self._opened: list[int] = []
        problem, handle = "", b""
        try:
            self._library.said("treadle_peer_device", device)
            self._own = self._library.address("treadle_peer_allocate", BLOCK_BYTES)
            room = ctypes.create_string_buffer(int(self._library.c.treadle_peer_handle_bytes()))
            self._library.said("treadle_peer_export", self._own, room)
            handle = room.raw
        except ScheduleError as error:
            problem = str(error)
        handles = exchange(handle)
        if not problem and all(handles):
            try:
                self.blocks = tuple(
                    self._own if peer == rank else self._open(one) for peer, one in enumerate(handles)
                )
                self._begin(len(handles))
            except ScheduleError as error:
                problem = str(error)
        try:
            self._agree(problem)
        except MissingDependencyError:
            self.close()
            raise

    def _open(self, handle: bytes) -> int:
        self._opened.append(self._library.address("treadle_peer_open", handle))
        return self._opened[-1]

    def close(self) -> None:
        """Close peers' memory and free one's own."""
        for one in self._opened:
            self._library.c.treadle_peer_close(one)
        if self._own:
            self._library.c.treadle_peer_free(self._own)
        self._opened, self._own = [], 0


class OneProcessMemory(PeerMemory):
    """Memory of ranks that are threads of one process, on one GPU.

    Parameters
    ----------
    rank : int
    exchange : callable
    """

    def __init__(self, rank: int, exchange: Exchange) -> None:
        super().__init__(rank, exchange, "one process")
        self._library = gpu_library()
        self._own = self._library.address("treadle_peer_allocate", BLOCK_BYTES)
        self.blocks = tuple(int(one) for one in exchange(str(self._own).encode()))
        self._begin(len(self.blocks))
        self.barrier()

    def close(self) -> None:
        """Free one's own."""
        if self._own:
            self._library.c.treadle_peer_free(self._own)
        self._own = 0


class GpuLibrary:
    """The functions of kernel/rank_host.cpp.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self.c = ctypes.CDLL(str(path))
        whole, address = ctypes.c_int64, ctypes.c_void_p
        told = (address, whole)
        for name, result, arguments in (
            ("treadle_peer_allocate", address, (whole, *told)),
            ("treadle_peer_free", None, (address,)),
            ("treadle_peer_write", whole, (address, address, whole, *told)),
            ("treadle_peer_read", whole, (address, address, whole, *told)),
            ("treadle_peer_handle_bytes", whole, ()),
            ("treadle_peer_export", whole, (address, address, *told)),
            ("treadle_peer_open", address, (address, *told)),
            ("treadle_peer_close", None, (address,)),
            ("treadle_peer_device", whole, (whole, *told)),
            ("treadle_rank_open", address, (whole, whole, address, whole, whole, *told)),
            ("treadle_rank_close", None, (address,)),
            ("treadle_rank_prepare", address, (address, address, whole, whole, whole, *told)),
            ("treadle_rank_drop", None, (address,)),
            ("treadle_rank_room", whole, (address, whole, whole, whole, *told)),
            ("treadle_rank_launch", whole, (address, address, address, *[whole] * 3, address, *told)),
            ("treadle_rank_failed", whole, (address, address)),
        ):
            function = getattr(self.c, name)
            function.restype, function.argtypes = result, arguments

    def address(self, name: str, *arguments: object) -> int:
        """What a function returns, an address; ScheduleError in its words where it has none."""
        words = ctypes.create_string_buffer(_ROOM)
        found = getattr(self.c, name)(*arguments, words, _ROOM)
        if not found:
            raise ScheduleError(words.value.decode(errors="replace"))
        return int(found)

    def said(self, name: str, *arguments: object) -> None:
        """Call a function; ScheduleError in its words where it fails."""
        words = ctypes.create_string_buffer(_ROOM)
        if getattr(self.c, name)(*arguments, words, _ROOM):
            raise ScheduleError(words.value.decode(errors="replace"))

    def count(self, name: str, *arguments: object) -> int:
        """What a function counts; ScheduleError in its words where it fails."""
        words = ctypes.create_string_buffer(_ROOM)
        found = int(getattr(self.c, name)(*arguments, words, _ROOM))
        if found < 0:
            raise ScheduleError(words.value.decode(errors="replace"))
        return found


@cache
def _library_at(path: Path) -> GpuLibrary:
    return GpuLibrary(path)


def gpu_library() -> GpuLibrary:
    """The library that runs lanes on a GPU; MissingDependencyError where there is none and no nvcc."""
    return _library_at(build_for_gpu())
