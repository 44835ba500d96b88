"""Memory of GPUs that all ranks of a group reach: one small interface, and who provides it.

A block has as many bytes at each rank. Each rank has addresses of all ranks' bytes as they are mapped in its
process, and perhaps addresses that reach those of several ranks together (multicast); kernels load and store
there directly. The first block of a group holds each rank's staging and flags.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from treadle.errors import MissingDependencyError, ScheduleError
from treadle.runtime.device.block_program import BlockProgram, DeviceProtocol
from treadle.runtime.device.memory.gpu_library import GpuLibrary, gpu_library
from treadle.runtime.device.sized_blocks import MOST_SLICES, STAGING_BYTES, SizedBlocks

Exchange = Callable[[bytes], list[bytes]]
"""Gives each rank what all ranks have given, in the order of ranks; all call it as often."""

FLAGS_AT = sum(STAGING_BYTES.values())
"""Offset of the flags in the first block: behind the staging of Simple, then of LL."""
STAGING_AT = {DeviceProtocol.SIMPLE: 0, DeviceProtocol.LL: STAGING_BYTES[DeviceProtocol.SIMPLE]}
MOST_FLAGS = 2**19
"""Flags of a rank, for all programs of its group."""
BLOCK_BYTES = FLAGS_AT + 8 * MOST_FLAGS

Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class PeerBlock:
    """Equal numbers of bytes at each rank.

    Parameters
    ----------
    size : int
        Bytes.
    addresses : tuple of int
        Of each rank's bytes in this process; 0: only a network reaches them.
    multicast : mapping of tuple of int to int
        Of groups of ranks, the same groups at all ranks: where a store reaches the bytes of all of them and a
        load adds them up; 0 where this rank is none of them.
    number : int
        Of the group's blocks, in the order in which they were made.
    """

    size: int
    addresses: tuple[int, ...]
    multicast: Mapping[tuple[int, ...], int] = field(default_factory=dict)
    number: int = 0


class PeerNetwork(Protocol):
    """Launches programs that reach some ranks by a network; see `nccl_network.NcclNetworkMemory`."""

    @property
    def library(self) -> GpuLibrary:
        """Library of the kernels."""

    def check(self, lanes: BlockProgram) -> None:
        """Raise ScheduleError for unsupported programs."""

    def check_size(self, tables: SizedBlocks, element_bytes: int) -> None:
        """Raise ScheduleError for slices that do not fit."""

    def launch(
        self, rank: int, tables: int, places: Any, windows: Sequence[tuple[int, int]], *codes: object
    ) -> None:
        """Put a launch on a stream.

        Parameters
        ----------
        rank, tables : int
            Addresses.
        windows : sequence of (int, int)
            Of INPUT and OUTPUT: number of the block, or -1, and the place in it.
        *codes : int
            Of element and reduction, threads, stream.
        """

    def max_blocks(self, element: int, threads: int) -> int:
        """Number of blocks of a launch that the GPU can hold."""


class PeerMemory(ABC):
    """Blocks at all ranks of a group; the first, of `BLOCK_BYTES`, is there from the start.

    Parameters
    ----------
    exchange : callable
        See `Exchange`; used at set-up only.
    words : str
        What it is, for the log.

    Attributes
    ----------
    n_ranks : int
    no_multicast : str
        Why blocks have no multicast addresses, the same at all ranks; empty: they may have some.
    first : PeerBlock
        Staging and flags.
    network : PeerNetwork, optional
        What reaches ranks whose bytes have no address here.

    Notes
    -----
    Flags of ranks that have entered are those of launch 0 when this is made; everything else is 0.
    """

    def __init__(self, rank: int, exchange: Exchange, words: str) -> None:
        self.rank, self.exchange, self.words = rank, exchange, words
        self.n_ranks, self._n_blocks = 0, 0
        self.no_multicast = ""
        self.first = PeerBlock(0, ())
        self.network: PeerNetwork | None = None

    @property
    def blocks(self) -> tuple[int, ...]:
        """Address of each rank's staging and flags in this process."""
        return self.first.addresses

    def allocate(self, size: int, groups: Sequence[tuple[int, ...]] = ()) -> PeerBlock:
        """A block of zeros; all ranks request the same, in the same order.

        Parameters
        ----------
        size : int
            Bytes.
        groups : sequence of tuple of int
            Ranks that one address should reach; the block has those that can be had.

        Raises
        ------
        MissingDependencyError
            At all ranks, if one cannot have it.
        """
        made = replace(self._allocate(size, groups), number=self._n_blocks)
        self._n_blocks += 1
        return made

    @abstractmethod
    def _allocate(self, size: int, groups: Sequence[tuple[int, ...]]) -> PeerBlock:
        """Body of `allocate`."""

    @abstractmethod
    def close(self) -> None:
        """Free everything; no thread block of any rank may use it any more."""

    def barrier(self) -> None:
        """Wait until all ranks have called it.

        Raises
        ------
        MissingDependencyError
            If a rank has given up.
        """
        self._agree("")

    def _agreed(self, problem: str) -> str:
        """The words of the first rank that has a problem, the same at all ranks; empty: none has."""
        for rank, said in enumerate(self.exchange(problem.encode())):
            if said:
                return f"{self.words}: rank {rank}: {said.decode(errors='replace')}"
        return ""

    def _agree(self, problem: str) -> None:
        """Fail at all ranks, with the message of the first that has a problem."""
        found = self._agreed(problem)
        if found:
            raise MissingDependencyError(found)

    def _have_all(self, found: object) -> bool:
        """Whether all ranks have it: an address at some ranks alone would have them do what others do not."""
        return all(one == b"1" for one in self.exchange(b"1" if found else b"0"))

    def _together(self, work: Callable[[], Found]) -> Found:
        """Return work's result once all ranks have done it; MissingDependencyError at all if one cannot."""
        problem, found = "", None
        try:
            found = work()
        except Exception as error:  # whatever it is, the other ranks must hear of it
            own = isinstance(error, (MissingDependencyError, ScheduleError))
            problem = str(error) if own else f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        self._agree(problem)
        return found  # type: ignore[return-value]

    def _open(self, set_up: Callable[[], None]) -> None:
        """Open the provider, which fails at all ranks together, then the first block with its flags."""
        try:
            set_up()
            self.n_ranks = len(self.exchange(b""))
            self.first = self.allocate(BLOCK_BYTES)
            self._together(self._write_entered)
        except BaseException:
            self.close()
            raise

    def _write_entered(self) -> None:
        entered = np.full(self.n_ranks, MOST_SLICES, dtype=np.uint64)
        at = self.blocks[self.rank] + FLAGS_AT
        gpu_library().call("treadle_peer_write", at, entered.ctypes.data, entered.nbytes)


class IpcMemory(PeerMemory):
    """Memory of several processes of one host, by CUDA's handles.

    Parameters
    ----------
    device : int
        Of this process.

    Raises
    ------
    MissingDependencyError
        At all ranks, if one has no GPU, or cannot open a peer's memory.
    """

    def __init__(self, rank: int, exchange: Exchange, device: int = 0) -> None:
        super().__init__(rank, exchange, "CUDA IPC")
        self.no_multicast = "handles of CUDA IPC carry no multicast; TREADLE_GPU_MEMORY=cumem asks for it"
        self._library = gpu_library()
        self._own: list[int] = []
        self._opened: list[int] = []
        self._open(lambda: self._together(lambda: self._library.call("treadle_peer_device", device)))

    def _allocate(self, size: int, groups: Sequence[tuple[int, ...]]) -> PeerBlock:  # noqa: ARG002
        """See `PeerMemory`; no group has an address."""
        own, handle = self._together(lambda: self._create(size))
        handles = self.exchange(handle)
        return PeerBlock(
            size,
            self._together(
                lambda: tuple(
                    own if peer == self.rank else self._map(one) for peer, one in enumerate(handles)
                )
            ),
        )

    def _create(self, size: int) -> tuple[int, bytes]:
        self._own.append(self._library.address("treadle_peer_allocate", size))
        room = ctypes.create_string_buffer(int(self._library.c.treadle_peer_handle_bytes()))
        self._library.call("treadle_peer_export", self._own[-1], room)
        return self._own[-1], room.raw

    def _map(self, handle: bytes) -> int:
        self._opened.append(self._library.address("treadle_peer_open", handle))
        return self._opened[-1]

    def close(self) -> None:
        """Close peers' memory and free one's own."""
        for one in self._opened:
            self._library.c.treadle_peer_close(one)
        for one in self._own:
            self._library.c.treadle_peer_free(one)
        self._opened, self._own = [], []


class OneProcessMemory(PeerMemory):
    """Memory of ranks that are threads of one process, on one GPU."""

    def __init__(self, rank: int, exchange: Exchange) -> None:
        super().__init__(rank, exchange, "one process")
        self.no_multicast = "a switch reaches one memory of each GPU, and these ranks share one"
        self._library = gpu_library()
        self._own: list[int] = []
        self._open(lambda: None)

    def _allocate(self, size: int, groups: Sequence[tuple[int, ...]]) -> PeerBlock:  # noqa: ARG002
        """See `PeerMemory`; no group has an address."""
        self._own.append(self._together(lambda: self._library.address("treadle_peer_allocate", size)))
        return PeerBlock(size, tuple(int(one) for one in self.exchange(str(self._own[-1]).encode())))

    def close(self) -> None:
        """Free one's own."""
        for one in self._own:
            self._library.c.treadle_peer_free(one)
        self._own = []
