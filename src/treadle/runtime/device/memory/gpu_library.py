"""The host's functions of the device runtime, as the compiled library of a GPU has them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from treadle.errors import ScheduleError
from treadle.runtime.device.kernel_build import build_for_gpu

_ROOM = 300
"""Characters of what went wrong."""
_WHOLE, _ADDRESS = ctypes.c_int64, ctypes.c_void_p
_TOLD = (_ADDRESS, _WHOLE)
_FUNCTIONS: tuple[tuple[str, type | None, tuple[type, ...]], ...] = (
    # kernel/rank_host.cpp
    ("treadle_peer_allocate", _ADDRESS, (_WHOLE, *_TOLD)),
    ("treadle_peer_free", None, (_ADDRESS,)),
    ("treadle_peer_write", _WHOLE, (_ADDRESS, _ADDRESS, _WHOLE, *_TOLD)),
    ("treadle_peer_read", _WHOLE, (_ADDRESS, _ADDRESS, _WHOLE, *_TOLD)),
    ("treadle_peer_zero", _WHOLE, (_ADDRESS, _WHOLE, *_TOLD)),
    ("treadle_peer_handle_bytes", _WHOLE, ()),
    ("treadle_peer_export", _WHOLE, (_ADDRESS, _ADDRESS, *_TOLD)),
    ("treadle_peer_open", _ADDRESS, (_ADDRESS, *_TOLD)),
    ("treadle_peer_close", None, (_ADDRESS,)),
    ("treadle_peer_device", _WHOLE, (_WHOLE, *_TOLD)),
    ("treadle_rank_open", _ADDRESS, (_WHOLE, _WHOLE, _ADDRESS, _WHOLE, _WHOLE, *_TOLD)),
    ("treadle_rank_close", None, (_ADDRESS,)),
    ("treadle_rank_table", _ADDRESS, (_ADDRESS, _ADDRESS, _WHOLE, *_TOLD)),
    ("treadle_rank_prepare", _ADDRESS, (_ADDRESS, _ADDRESS, _WHOLE, _WHOLE, _WHOLE, *_TOLD)),
    ("treadle_rank_drop", None, (_ADDRESS,)),
    ("treadle_rank_room", _WHOLE, (_ADDRESS, _WHOLE, _WHOLE, _WHOLE, *_TOLD)),
    ("treadle_rank_launch", _WHOLE, (_ADDRESS, _ADDRESS, _ADDRESS, *[_WHOLE] * 3, _ADDRESS, *_TOLD)),
    ("treadle_rank_failed", _WHOLE, (_ADDRESS, _ADDRESS)),
    # kernel/cumem_host.cpp
    ("treadle_cumem_has_multicast", _WHOLE, _TOLD),
    ("treadle_cumem_size", _WHOLE, (_WHOLE, _WHOLE, *_TOLD)),
    ("treadle_cumem_create", _ADDRESS, (_WHOLE, *_TOLD)),
    ("treadle_cumem_multicast", _ADDRESS, (_WHOLE, _WHOLE, *_TOLD)),
    ("treadle_cumem_export", _WHOLE, (_ADDRESS, *_TOLD)),
    ("treadle_cumem_import", _ADDRESS, (_WHOLE, _WHOLE, *_TOLD)),
    ("treadle_cumem_map", _ADDRESS, (_ADDRESS, *_TOLD)),
    ("treadle_cumem_add", _WHOLE, (_ADDRESS, *_TOLD)),
    ("treadle_cumem_bind", _WHOLE, (_ADDRESS, _ADDRESS, *_TOLD)),
    ("treadle_cumem_free", None, (_ADDRESS,)),
)
_OF_NETWORKS: tuple[tuple[str, type | None, tuple[type, ...]], ...] = (
    # kernel/nccl_host.cpp
    ("treadle_nccl_id_bytes", _WHOLE, ()),
    ("treadle_nccl_id", _WHOLE, (_ADDRESS, *_TOLD)),
    ("treadle_nccl_open", _ADDRESS, (_ADDRESS, _WHOLE, _WHOLE, *_TOLD)),
    ("treadle_nccl_close", None, (_ADDRESS,)),
    ("treadle_nccl_window", _ADDRESS, (_ADDRESS, _WHOLE, *_TOLD)),
    ("treadle_nccl_addresses", _WHOLE, (_ADDRESS, _ADDRESS, _ADDRESS, *_TOLD)),
    ("treadle_nccl_connect", _WHOLE, (_ADDRESS, _WHOLE, _WHOLE, *_TOLD)),
    ("treadle_nccl_room", _WHOLE, (_WHOLE, _WHOLE, _WHOLE, *_TOLD)),
    ("treadle_nccl_launch", _WHOLE, (*[_ADDRESS] * 5, *[_WHOLE] * 3, _ADDRESS, *_TOLD)),
)


class GpuLibrary:
    """The functions of kernel/rank_host.cpp and kernel/cumem_host.cpp.

    Parameters
    ----------
    with_network : bool
        Those of kernel/nccl_host.cpp in place of the latter.
    """

    def __init__(self, path: Path, *, with_network: bool = False) -> None:
        self.c = ctypes.CDLL(str(path))
        rank = [one for one in _FUNCTIONS if not one[0].startswith("treadle_cumem")]
        for name, result, arguments in (*rank, *_OF_NETWORKS) if with_network else _FUNCTIONS:
            function = getattr(self.c, name)
            function.restype, function.argtypes = result, arguments

    def _call(self, name: str, arguments: tuple[object, ...], is_failure: Callable[[Any], bool]) -> Any:
        """Call a function; ScheduleError with its message if it fails."""
        words = ctypes.create_string_buffer(_ROOM)
        found = getattr(self.c, name)(*arguments, words, _ROOM)
        if is_failure(found):
            raise ScheduleError(words.value.decode(errors="replace"))
        return found

    def address(self, name: str, *arguments: object) -> int:
        """Call a function that returns an address, which is 0 if it fails."""
        return int(self._call(name, arguments, lambda found: not found))

    def call(self, name: str, *arguments: object) -> None:
        """Call a function that returns 0 unless it fails."""
        self._call(name, arguments, bool)

    def count(self, name: str, *arguments: object) -> int:
        """Call a function that returns a count, which is negative if it fails."""
        return int(self._call(name, arguments, lambda found: int(found) < 0))


@cache
def library_at(path: Path, *, with_network: bool = False) -> GpuLibrary:
    """The functions of a library, which is loaded once."""
    return GpuLibrary(path, with_network=with_network)


def gpu_library() -> GpuLibrary:
    """Return the library that runs on a GPU; MissingDependencyError without it and nvcc."""
    return library_at(build_for_gpu())
