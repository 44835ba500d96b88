"""Windows of NCCL: what is asked of the library, what it gives, and that nothing is kept where a rank fails.

No GPU: the library and the writes are stand-ins that note what they are asked for.
"""

# ruff: noqa: N802 (the names are those of NCCL)
from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, get_ident
from typing import Any

import pytest

from treadle.errors import MissingDependencyError
from treadle.runtime.device.memory import nccl_windows, peer_memory
from treadle.runtime.device.memory.nccl_windows import NcclWindowMemory
from treadle.runtime.device.memory.peer_memory import PeerBlock

BLOCK, MULTICAST = 0x1000, 0x9000


class StandIn:
    """NCCL of one rank: block of rank r at r + 1 times BLOCK, 0 where loads and stores do not reach."""

    def __init__(
        self, rank: int, far: tuple[int, ...] = (), failing: str = "", *, nowhere: bool = False
    ) -> None:
        self.rank, self.far, self.failing, self.nowhere = rank, far, failing, nowhere
        self.held: list[str] = []
        self.told: dict[str, Any] = {}

    def _status(self, name: str) -> int:
        return 7 if name == self.failing else 0

    def ncclGetErrorString(self, status: int) -> bytes:
        return b"status %d" % status

    def ncclGetUniqueId(self, out: Any) -> int:
        out._obj.bytes = b"id of rank %d" % self.rank
        return self._status("ncclGetUniqueId")

    def ncclCommInitRank(self, comm: Any, n_ranks: int, unique_id: Any, rank: int) -> int:
        self.told["group"] = (n_ranks, unique_id.bytes, rank)
        comm._obj.value = 1
        self.held.append("communicator")
        return self._status("ncclCommInitRank")

    def ncclMemAlloc(self, own: Any, size: Any) -> int:
        if self._status("ncclMemAlloc"):
            return 7
        own._obj.value = BLOCK * (self.rank + 1)
        self.told["bytes"] = size.value
        self.held.append("memory")
        return 0

    def ncclCommWindowRegister(self, comm: Any, own: Any, size: Any, window: Any, flags: int) -> int:
        self.told["window"] = (comm.value, own.value, size.value, flags)
        window._obj.value = 2
        self.held.append("window")
        return self._status("ncclCommWindowRegister")

    def ncclGetPeerDevicePointer(self, window: Any, offset: Any, peer: int, out: Any) -> int:
        out._obj.value = 0 if peer in self.far else BLOCK * (peer + 1) + offset.value
        return self._status("ncclGetPeerDevicePointer")

    def ncclGetLsaMultimemDevicePointer(self, window: Any, offset: Any, out: Any) -> int:
        out._obj.value = 0 if self.nowhere else MULTICAST
        return self._status("ncclGetLsaMultimemDevicePointer")

    def ncclCommWindowDeregister(self, comm: Any, window: Any) -> None:
        assert (comm.value, window.value) == (1, 2)
        self.held.remove("window")

    def ncclMemFree(self, own: Any) -> None:
        assert own.value == BLOCK * (self.rank + 1)
        self.held.remove("memory")

    def ncclCommDestroy(self, comm: Any) -> None:
        assert self.held == ["communicator"]  # last, as the others need it
        self.held.remove("communicator")


class Writes:
    """The GPU's library: notes where it is asked to write how much."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    def call(self, name: str, *arguments: Any) -> int:
        first = getattr(arguments[0], "value", arguments[0])
        self.asked.append((name, first, *arguments[1:][-1:]))
        return 0


def opened(
    monkeypatch: pytest.MonkeyPatch,
    libraries: list[StandIn | None],
    then: Callable[[NcclWindowMemory], object] = lambda _: None,
) -> tuple[list[NcclWindowMemory | str], Writes]:
    """What each rank has, or the words with which it gave up; ranks are threads."""
    writes, barrier = Writes(), Barrier(len(libraries), timeout=60)
    given: list[list[bytes]] = [[b""] * len(libraries), [b""] * len(libraries)]
    ranks: dict[int, StandIn | None] = {}

    def exchange_of(rank: int) -> Callable[[bytes], list[bytes]]:
        turn = [0]

        def exchange(data: bytes) -> list[bytes]:
            table = given[turn[0] % 2]
            turn[0] += 1
            table[rank] = data
            barrier.wait()
            found = list(table)
            barrier.wait()
            return found

        return exchange

    def loaded() -> StandIn:
        library = ranks[get_ident()]
        if library is None:
            raise MissingDependencyError("no such NCCL")
        return library

    def open_rank(rank: int) -> NcclWindowMemory | str:
        ranks[get_ident()] = libraries[rank]
        barrier.wait()
        try:
            memory = NcclWindowMemory(rank, exchange_of(rank), 10 + rank)
            then(memory)
            return memory
        except MissingDependencyError as error:
            return str(error)

    for module in (nccl_windows, peer_memory):
        monkeypatch.setattr(module, "gpu_library", lambda: writes)
    monkeypatch.setattr(nccl_windows, "loaded_nccl", loaded)
    with ThreadPoolExecutor(len(libraries)) as pool:
        return list(pool.map(open_rank, range(len(libraries)))), writes


@pytest.mark.parametrize("refused", [(), (1,)])
def test_an_address_of_all_is_there_where_every_rank_has_it(
    refused: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries = [StandIn(rank, nowhere=rank in refused) for rank in range(3)]
    blocks: dict[int, PeerBlock] = {}

    def then(memory: NcclWindowMemory) -> None:
        blocks[memory.rank] = memory.allocate(64, [(0, 1, 2)])

    found, _ = opened(monkeypatch, list(libraries), then)
    for rank, memory in enumerate(found):
        assert isinstance(memory, NcclWindowMemory)
        assert (blocks[rank].size, blocks[rank].number) == (64, 1)
        assert blocks[rank].multicast == ({} if refused else {(0, 1, 2): MULTICAST})
        assert ("no multimem address" in memory.no_multicast) == bool(refused)


@pytest.mark.parametrize(
    ("libraries", "said"),
    [
        ([StandIn(0), StandIn(1, far=(0,))], "rank 1: loads and stores do not reach rank 0"),
        ([StandIn(0, far=(1, 2)), StandIn(1), StandIn(2)], "rank 0: loads and stores do not reach rank 1, 2"),
        ([StandIn(0), StandIn(1, failing="ncclMemAlloc")], "rank 1: ncclMemAlloc: status 7"),
        ([StandIn(0, failing="ncclGetUniqueId"), StandIn(1)], "rank 0: ncclGetUniqueId: status 7"),
        ([StandIn(0), None], "rank 1: no such NCCL"),
    ],
)
def test_where_one_rank_fails_all_do_and_keep_nothing(
    libraries: list[StandIn | None], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = opened(monkeypatch, libraries)
    assert found == [f"windows of NCCL: {said}"] * len(libraries)
    assert all(library is None or library.held == [] for library in libraries)


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        ({"libnccl.so.2": 22900}, ""),
        ({"libnccl.so": 22900}, ""),
        ({"libnccl.so.2": 22899}, "libnccl.so.2 is of version 22899, expected 22900"),
        ({}, "libnccl.so.2 and libnccl.so are not there: install NCCL 2.29 or later"),
    ],
)
def test_the_library_has_to_be_new_enough(
    versions: dict[str, int], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Library:
        def __init__(self, name: str) -> None:
            if name not in versions:
                raise OSError(name)
            self.name, self.ncclGetErrorString = name, lambda status: b""

        def ncclGetVersion(self, out: Any) -> None:
            out._obj.value = versions[self.name]

    monkeypatch.setattr(ctypes, "CDLL", Library)
    if said:
        with pytest.raises(MissingDependencyError, match=said):
            nccl_windows.loaded_nccl()
    else:
        assert nccl_windows.loaded_nccl().name in versions
