"""Windows of NCCL as memory that peers reach: pointers of what can be loaded and stored, and of multicast.

NCCL 2.29 or later; its library is found as PyTorch's wheels or the system have it. Never run on a GPU.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from treadle.errors import MissingDependencyError, ScheduleError
from treadle.runtime.device.memory.gpu_library import gpu_library
from treadle.runtime.device.memory.peer_memory import Exchange, PeerBlock, PeerMemory

_LEAST_VERSION = 22900
_SYMMETRIC = 1
_ID_BYTES = 128
_NAMES = ("libnccl.so.2", "libnccl.so")


class _UniqueId(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_char * _ID_BYTES),)


class NcclWindowMemory(PeerMemory):
    """A window of NCCL's at each rank for each block; all of one host or NVLink domain.

    Raises
    ------
    MissingDependencyError
        At all ranks, if one has no such NCCL, or cannot reach a peer's memory by loads and stores.
    """

    def __init__(self, rank: int, exchange: Exchange, device: int) -> None:
        super().__init__(rank, exchange, "windows of NCCL")
        self._nccl: Any = None
        self._comm = ctypes.c_void_p()
        self._windows: list[ctypes.c_void_p] = []
        self._own: list[ctypes.c_void_p] = []
        self._open(lambda: self._join(device))

    def _join(self, device: int) -> None:
        """The communicator."""
        own_id = _UniqueId()

        def begin() -> None:
            gpu_library().call("treadle_peer_device", device)
            self._nccl = loaded_nccl()
            if self.rank == 0:
                self._call("ncclGetUniqueId", ctypes.byref(own_id))

        self._together(begin)
        ids = self.exchange(bytes(own_id))
        first = _UniqueId.from_buffer_copy(ids[0])
        comm = ctypes.byref(self._comm)
        self._together(lambda: self._call("ncclCommInitRank", comm, len(ids), first, self.rank))

    def _allocate(self, size: int, groups: Sequence[tuple[int, ...]]) -> PeerBlock:
        """See `PeerMemory`; a group of all ranks has an address where NCCL has one."""
        window = self._together(lambda: self._register(size))
        far, found = self._together(lambda: self._peer_addresses(window))
        self._agree(f"loads and stores do not reach rank {', '.join(far[:9])}" if far else "")
        whole = tuple(range(self.n_ranks))
        wanted = whole in groups
        address = self._pointer("ncclGetLsaMultimemDevicePointer", window) if wanted else 0
        has_all = wanted and self._have_all(address)
        if wanted and not has_all:
            self.no_multicast = "NCCL has no multimem address of its windows here"
        return PeerBlock(size, tuple(found), {whole: address} if has_all else {})

    def _register(self, size: int) -> ctypes.c_void_p:
        own, window = ctypes.c_void_p(), ctypes.c_void_p()
        bytes_ = ctypes.c_size_t(size)
        self._call("ncclMemAlloc", ctypes.byref(own), bytes_)
        self._own.append(own)
        gpu_library().call("treadle_peer_zero", own, size)
        self._call("ncclCommWindowRegister", self._comm, own, bytes_, ctypes.byref(window), _SYMMETRIC)
        self._windows.append(window)
        return window

    def _peer_addresses(self, window: ctypes.c_void_p) -> tuple[list[str], list[int]]:
        found = [self._pointer("ncclGetPeerDevicePointer", window, peer) for peer in range(self.n_ranks)]
        return [str(peer) for peer, one in enumerate(found) if not one], found

    def _pointer(self, name: str, window: ctypes.c_void_p, *arguments: int) -> int:
        found = ctypes.c_void_p()
        self._call(name, window, ctypes.c_size_t(0), *arguments, ctypes.byref(found))
        return found.value or 0

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._nccl, name)(*arguments)
        if status:
            said = self._nccl.ncclGetErrorString(status)
            raise ScheduleError(f"{name}: {said.decode(errors='replace')}")

    def close(self) -> None:
        """Give windows, memory and communicator back."""
        for window in self._windows:
            self._nccl.ncclCommWindowDeregister(self._comm, window)
        for own in self._own:
            self._nccl.ncclMemFree(own)
        if self._comm:
            self._nccl.ncclCommDestroy(self._comm)
        self._windows, self._own, self._comm = [], [], ctypes.c_void_p()


def loaded_nccl() -> Any:
    """NCCL's library, new enough for pointers of windows; MissingDependencyError where there is none."""
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
