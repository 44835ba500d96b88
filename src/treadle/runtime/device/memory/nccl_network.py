"""Programs between hosts over NCCL's windows: a box by its addresses, other hosts by GIN's puts and signals.

A library of its own, compiled against NCCL's headers, has the communicator, the windows and the kernels
(kernel/nccl_host.cpp). NCCL 2.29 or later. Compiled only: never run on a GPU, nor on a stand-in of NCCL.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Sequence
from typing import Any

from treadle.errors import ScheduleError
from treadle.runtime.device.block_nodes import MOST_PUTS
from treadle.runtime.device.block_program import BlockProgram, DeviceProtocol, FlagPurpose
from treadle.runtime.device.kernel_build import build_for_nccl
from treadle.runtime.device.memory.gpu_library import GpuLibrary, library_at
from treadle.runtime.device.memory.peer_memory import FLAGS_AT, Exchange, PeerBlock, PeerMemory
from treadle.runtime.device.sized_blocks import SizedBlocks

OUTBOX_BYTES = 2**25
"""Outbox bytes of a rank: slices on their way to other hosts."""


class WindowNumbers(ctypes.Structure):
    """Addresses of a launch's INPUT and OUTPUT, as in kernel/nccl_host.cpp."""

    _fields_ = (
        ("windows", ctypes.c_int64 * 2),
        ("at", ctypes.c_int64 * 2),
        ("outbox_bytes", ctypes.c_int64),
    )


class NcclNetworkMemory(PeerMemory):
    """A window of NCCL's at each rank for each block; what loads and stores do not reach, GIN does.

    Raises
    ------
    MissingDependencyError
        At all ranks, if one has no NCCL and its headers, or NCCL has no device API or no network for it.
    """

    def __init__(self, rank: int, exchange: Exchange, device: int) -> None:
        super().__init__(rank, exchange, "windows of NCCL and GIN")
        self._comm = 0
        self._library: GpuLibrary
        self._open(lambda: self._open_communicator(device))
        try:
            self.allocate(OUTBOX_BYTES)  # the second window
            self._together(
                lambda: self._library.call("treadle_nccl_connect", self._comm, self.n_ranks, FLAGS_AT)
            )
        except BaseException:
            self.close()
            raise
        self.network = self

    def _open_communicator(self, device: int) -> None:
        def begin() -> Any:
            self._library = nccl_library()
            self._library.call("treadle_peer_device", device)
            made = ctypes.create_string_buffer(int(self._library.c.treadle_nccl_id_bytes()))
            if self.rank == 0:
                self._library.call("treadle_nccl_id", made)
            return made

        made = self._together(begin)
        ids = self.exchange(made.raw)
        self._together(lambda: self._join(ids))

    def _join(self, ids: list[bytes]) -> None:
        self._comm = self._library.address("treadle_nccl_open", ids[0], self.rank, len(ids))

    def _allocate(self, size: int, groups: Sequence[tuple[int, ...]]) -> PeerBlock:
        """See `PeerMemory`; addresses of ranks of other hosts are 0.

        A group has an address where it is all ranks of this rank's box and NCCL has one at every rank.
        """
        self._together(lambda: self._library.address("treadle_nccl_window", self._comm, size))
        addresses, all_of_box = (ctypes.c_int64 * self.n_ranks)(), ctypes.c_int64()
        self._together(
            lambda: self._library.call(
                "treadle_nccl_addresses", self._comm, addresses, ctypes.byref(all_of_box)
            )
        )
        found = tuple(addresses)
        box = tuple(rank for rank, address in enumerate(found) if address)
        boxes = {
            tuple(map(int, one.decode().split(",")))
            for one in self.exchange(",".join(map(str, box)).encode())
        }
        has_all = self._have_all(all_of_box.value)
        if groups and not has_all:
            self.no_multicast = "NCCL has no multimem address of its windows here"
        asked = [group for group in groups if has_all and group in boxes]
        return PeerBlock(size, found, {one: all_of_box.value if one == box else 0 for one in asked})

    @property
    def library(self) -> GpuLibrary:
        """The library whose kernels reach this memory."""
        return self._library

    def check(self, lanes: BlockProgram) -> None:
        """Raise ScheduleError for programs that the network does not support."""
        if lanes.protocol is not DeviceProtocol.SIMPLE:
            raise ScheduleError(f"protocol {lanes.protocol} between hosts: lines go by loads and stores only")
        raised = Counter(
            flag for lane in lanes.lanes for operation in lane.operations for flag in operation.raises
        )
        if any(
            times > 1 or lanes.flags[flag].purpose is FlagPurpose.ENTERED for flag, times in raised.items()
        ):
            raise ScheduleError("two operations raise one flag: a signal would be added to the other's")

    def check_size(self, tables: SizedBlocks, element_bytes: int) -> None:
        """Raise ScheduleError for slices that do not fit into the outbox."""
        lanes = int((tables.lanes[:, 0] == self.rank).sum())
        slot = OUTBOX_BYTES // (max(1, lanes) * MOST_PUTS) // 256 * 256
        largest = int(tables.operations[:, 3].max(initial=0)) * element_bytes
        if largest > slot:
            raise ScheduleError(
                f"slices of {largest} bytes in {lanes} thread blocks: the outbox has {slot} bytes for each"
            )

    def launch(
        self, rank: int, tables: int, places: Any, windows: Sequence[tuple[int, int]], *codes: object
    ) -> None:
        """Put a launch on a stream; see `peer_memory.PeerNetwork`."""
        numbers, at = zip(*windows, strict=True)
        pairs = ctypes.c_int64 * 2
        given = ctypes.byref(WindowNumbers(pairs(*numbers), pairs(*at), OUTBOX_BYTES))
        self._library.call("treadle_nccl_launch", self._comm, rank, tables, places, given, *codes)

    def max_blocks(self, element: int, threads: int) -> int:
        """Number of blocks of a launch that the GPU can hold."""
        return int(self._library.count("treadle_nccl_room", self.n_ranks, element, threads))

    def close(self) -> None:
        """Give device communicator, windows, memory and communicator back."""
        if self._comm:
            self._library.c.treadle_nccl_close(self._comm)
        self._comm = 0


def nccl_library() -> GpuLibrary:
    """Return the library over NCCL; MissingDependencyError without nvcc, or NCCL and its headers."""
    return library_at(build_for_nccl(), with_network=True)
