"""Windows of NCCL as memory that peers reach: pointers of what can be loaded and stored, and of multicast.

NCCL 2.29 or later; its library is found as PyTorch's wheels or the system have it. Never run on a GPU.
"""

from __future__ import annotations

import ctypes
from typing import Any

from treadle.errors import MissingDependencyError, ScheduleError
from treadle.runtime.device.peer_memory import BLOCK_BYTES, Exchange, PeerMemory, gpu_library

_LEAST_VERSION = 22900
_SYMMETRIC = 1
_ID_BYTES = 128
_NAMES = ("libnccl.so.2", "libnccl.so")


class _UniqueId(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_char * _ID_BYTES),)


class NcclWindowMemory(PeerMemory):
    """A window of NCCL's at each rank; all of one host or NVLink domain.

    Parameters
    ----------
    rank : int
    exchange : callable
    device : int

    Raises
    ------
    MissingDependencyError
        At all ranks, if one has no such NCCL, or cannot reach a peer's memory by loads and stores.
    """

    def __init__(self, rank: int, exchange: Exchange, device: int) -> None:
        super().__init__(rank, exchange, "windows of NCCL")
        self._comm, self._window, self._own = (ctypes.c_void_p() for _ in range(3))
        self._nccl: Any = None
        problem, own_id = "", _UniqueId()
        try:
            gpu_library().said("treadle_peer_device", device)
            self._nccl = _loaded()
            if rank == 0:
                self._call("ncclGetUniqueId", ctypes.byref(own_id))
        except (MissingDependencyError, ScheduleError) as error:
            problem = str(error)
        self._agree(problem)
        ids = exchange(bytes(own_id))
        try:
            self._open(len(ids), _UniqueId.from_buffer_copy(ids[0]))
        except ScheduleError as error:
            problem = str(error)
        try:
            self._agree(problem)
        except MissingDependencyError:
            self.close()
            raise

    def _open(self, n_ranks: int, unique_id: _UniqueId) -> None:
        self._call("ncclCommInitRank", ctypes.byref(self._comm), n_ranks, unique_id, self.rank)
        self._call("ncclMemAlloc", ctypes.byref(self._own), ctypes.c_size_t(BLOCK_BYTES))
        window = ctypes.byref(self._window)
        size = ctypes.c_size_t(BLOCK_BYTES)
        self._call("ncclCommWindowRegister", self._comm, self._own, size, window, _SYMMETRIC)
        found = [self._pointer("ncclGetPeerDevicePointer", peer) for peer in range(n_ranks)]
        far = [str(peer) for peer, one in enumerate(found) if not one]
        if far:
            raise ScheduleError(f"loads and stores do not reach rank {', '.join(far[:9])}")
        self.blocks = tuple(found)
        self.multicast = self._pointer("ncclGetLsaMultimemDevicePointer")
        zeros = bytes(BLOCK_BYTES)
        gpu_library().said("treadle_peer_write", self.blocks[self.rank], zeros, BLOCK_BYTES)
        self._begin(n_ranks)

    def _pointer(self, name: str, *arguments: int) -> int:
        found = ctypes.c_void_p()
        self._call(name, self._window, ctypes.c_size_t(0), *arguments, ctypes.byref(found))
        return found.value or 0

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._nccl, name)(*arguments)
        if status:
            said = self._nccl.ncclGetErrorString(status)
            raise ScheduleError(f"{name}: {said.decode(errors='replace')}")

    def close(self) -> None:
        """Give window, memory and communicator back."""
        if self._window:
            self._nccl.ncclCommWindowDeregister(self._comm, self._window)
        if self._own:
            self._nccl.ncclMemFree(self._own)
        if self._comm:
            self._nccl.ncclCommDestroy(self._comm)
        self._comm, self._window, self._own = (ctypes.c_void_p() for _ in range(3))


def _loaded() -> Any:
    """NCCL's library, new enough for pointers of windows."""
    for name in _NAMES:
        try:
            found = ctypes.CDLL(name)
        except OSError:
            continue
        version = ctypes.c_int()
        found.ncclGetVersion(ctypes.byref(version))
        if version.value < _LEAST_VERSION:
            raise MissingDependencyError(f"{name} is of version {version.value}, expected {_LEAST_VERSION}")
        found.ncclGetErrorString.restype = ctypes.c_char_p
        return found
    raise MissingDependencyError(f"{' and '.join(_NAMES)} are not there: install NCCL 2.29 or later")
