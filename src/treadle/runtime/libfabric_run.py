"""Executes emitted files over libfabric with data: the CPU interpreter of the dissertation's section 3.7.

``python -m treadle.runtime.libfabric_run --ranks RANKS FILE ...`` does what `mpi_run` does over MPI, with a
process for each rank on this host: each step of the XML is a tagged message of libfabric's provider tcp.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from typing import Any

from treadle.errors import TreadleError
from treadle.runtime.mpi_build import build_libfabric_calls

_CALLS = {
    "treadle_start": (ctypes.c_int, ()),
    "treadle_size": (ctypes.c_int, ()),
    "treadle_send": (ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_int)),
    "treadle_receive": (ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_int)),
    "treadle_test": (ctypes.c_int, (ctypes.c_void_p,)),
    "treadle_gather": (None, (ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)),
    "treadle_probe": (ctypes.c_int, ()),
    "treadle_finish": (None, ()),
}


class _Request:
    """A message under way, and the memory that it uses."""

    def __init__(self, library: Any, handle: int, memory: Any) -> None:
        self._library, self._handle, self._memory = library, handle, memory

    def Test(self) -> bool:
        """Whether it is complete; not to be asked again after that."""
        return bool(self._library.treadle_test(self._handle))

    def Wait(self) -> None:
        """Wait until it is complete."""
        while not self.Test():
            pass


class FabricWorld:
    """All ranks, with what `mpi_run.execute_file` calls of a communicator of mpi4py, under its names.

    Making one forks a process for each rank; the caller goes on in every one of them.

    Raises
    ------
    MissingDependencyError
        Without libfabric and its headers, or a C compiler.
    """

    def __init__(self, n_ranks: int) -> None:
        self._library = ctypes.CDLL(str(build_libfabric_calls()))
        for name, (result, arguments) in _CALLS.items():
            call = getattr(self._library, name)
            call.restype, call.argtypes = result, arguments
        os.environ["TREADLE_RANKS"] = str(n_ranks)
        self._rank = int(self._library.treadle_start())

    def Get_rank(self) -> int:
        """Return the rank of this process."""
        return self._rank

    def Get_size(self) -> int:
        """Return the number of ranks."""
        return int(self._library.treadle_size())

    def Isend(self, data: Any, dest: int, tag: int = 0) -> _Request:
        """Begin to send an array, which must stay as it is until the request is complete."""
        handle = self._library.treadle_send(data.ctypes.data, data.nbytes, dest, tag)
        return _Request(self._library, handle, data)

    def Irecv(self, room: Any, source: int, tag: int = 0) -> _Request:
        """Begin to receive into an array."""
        handle = self._library.treadle_receive(room.ctypes.data, room.nbytes, source, tag)
        return _Request(self._library, handle, room)

    def Barrier(self) -> None:
        """Wait until all ranks have called it."""
        self.allgather([0])

    def allreduce(self, value: int) -> int:
        """Return the sum over all ranks."""
        return sum(found[0] for found in self.allgather([value]))

    def allgather(self, values: Sequence[int]) -> list[list[int]]:
        """Contributions of all ranks, equally many numbers each."""
        size, n = self.Get_size(), len(values)
        own, everyone = (ctypes.c_int64 * n)(*values), (ctypes.c_int64 * (n * size))()
        self._library.treadle_gather(own, n, everyone)
        return [list(everyone[rank * n : (rank + 1) * n]) for rank in range(size)]

    def Iprobe(self) -> bool:
        """Whether a message has arrived that is never received."""
        return bool(self._library.treadle_probe())

    def Abort(self, status: int) -> None:
        """End all ranks."""
        os._exit(status)

    def finish(self) -> None:
        """All ranks call it before they leave."""
        self._library.treadle_finish()


def _main(words: Sequence[str]) -> int:
    if len(words) < 3 or words[0] != "--ranks" or not words[1].isdecimal():
        sys.stderr.write("usage: python -m treadle.runtime.libfabric_run --ranks RANKS FILE ...\n")
        return 2
    world = FabricWorld(int(words[1]))  # forks: numpy and its threads come after that
    from treadle.runtime.mpi_run import execute_files

    status = execute_files(words[2:], world)
    world.finish()
    return status


if __name__ == "__main__":
    try:
        code = _main(sys.argv[1:])
    except (OSError, UnicodeError, TreadleError) as problem:
        sys.stderr.write(f"treadle: {problem}\n")
        code = 2
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # nothing of the process that forked is left to be cleaned up
