"""PyTorch's symmetric memory as blocks: what is asked of it, and where its multicast address counts."""

from __future__ import annotations

from threading import Lock, Thread, get_ident
from types import SimpleNamespace
from typing import Any

import pytest

from harness.rank_groups import ThreadExchange
from treadle.errors import MissingDependencyError
from treadle.runtime.device.memory import peer_memory
from treadle.runtime.device.memory.peer_memory import PeerBlock

pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

import torch

from treadle.torch.gpu import symmetric_memory
from treadle.torch.gpu.symmetric_memory import SymmetricMemory


class Gpus:
    """What each rank, a thread, asks of PyTorch and the GPU's library."""

    def __init__(self, patch: pytest.MonkeyPatch, *, lacking: int | None = None, failing: str = "") -> None:
        self.lacking, self.failing = lacking, failing
        self.rank_of: dict[int, int] = {}
        self.asked: dict[int, list[Any]] = {0: [], 1: []}
        store = SimpleNamespace(set_group_info=self.set_group_info)
        for module in (symmetric_memory, peer_memory):
            patch.setattr(module, "gpu_library", lambda: SimpleNamespace(call=self.call))
        patch.setattr(symmetric_memory, "_SymmetricMemory", store)
        patch.setattr(symmetric_memory, "symmetric", self)
        patch.setattr(torch.cuda, "synchronize", lambda device: self.note("synchronize", device))

    def note(self, name: str, *arguments: Any) -> None:
        rank = self.rank_of[get_ident()]
        self.asked[rank].append((name, *arguments))
        if rank == 1 and name == self.failing:
            raise RuntimeError(f"{name} failed")

    def call(self, name: str, first: int, *_: int) -> None:
        self.note(name, first)

    def set_group_info(self, name: str, rank: int, n_ranks: int, store: object) -> None:
        self.note("group", name.rpartition("-")[0], rank, n_ranks, store)

    def empty(self, size: int, dtype: torch.dtype, device: torch.device) -> Any:
        self.note("empty", size, dtype, device)
        return SimpleNamespace(zero_=lambda: self.note("zero"))

    def rendezvous(self, tensor: Any, name: str) -> Any:
        rank = self.rank_of[get_ident()]
        self.note("rendezvous", name.rpartition("-")[0])
        address = 0 if rank == self.lacking else 70 + rank
        return SimpleNamespace(buffer_ptrs=[100 + rank, 200 + rank], multicast_ptr=address)


def opened(gpus: Gpus, *groups: tuple[int, ...]) -> list[Any]:
    """Memory of both ranks with a block for groups, or why there is none."""
    together, found, lock = ThreadExchange(2), list[Any]([None, None]), Lock()
    store: Any = "store"

    def work(rank: int) -> None:
        with lock:
            gpus.rank_of[get_ident()] = rank
        try:
            memory = SymmetricMemory(rank, together.of(rank), 5 + rank, store)
            found[rank] = memory, memory.allocate(64, groups)
        except MissingDependencyError as error:
            found[rank] = str(error)

    threads = [Thread(target=work, args=(rank,)) for rank in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    return found


@pytest.mark.parametrize("groups", [((0, 1),), ((1,),)])
def test_an_address_at_some_ranks_alone_is_none(
    monkeypatch: pytest.MonkeyPatch, groups: tuple[tuple[int, ...], ...]
) -> None:
    for memory, block in opened(Gpus(monkeypatch, lacking=0), *groups):
        assert isinstance(block, PeerBlock)
        assert block.multicast == {}
        words = "PyTorch has no multicast address here: that takes NVSwitch with SHARP"
        assert memory.no_multicast == words


@pytest.mark.parametrize("failing", ["group", "empty", "rendezvous", "treadle_peer_device"])
def test_where_one_rank_fails_both_do(monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    words = f"PyTorch's symmetric memory: rank 1: RuntimeError: {failing} failed"
    assert opened(Gpus(monkeypatch, failing=failing)) == [words] * 2
