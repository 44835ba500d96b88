"""PyTorch's symmetric memory as memory that peers reach; it has a multicast address where NVSwitch adds.

Never run on a GPU: PyTorch's part is tested by PyTorch, this one on a stand-in.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import torch
import torch.distributed._symmetric_memory as symmetric
from torch._C._distributed_c10d import Store, _SymmetricMemory

from treadle.runtime.device.memory.gpu_library import gpu_library
from treadle.runtime.device.memory.peer_memory import Exchange, PeerBlock, PeerMemory

_NUMBERS = count()


class SymmetricMemory(PeerMemory):
    """A tensor of symmetric memory at each rank for each block.

    Parameters
    ----------
    store : Store
        Of the group.

    Raises
    ------
    MissingDependencyError
        At all ranks, if one cannot have it.
    """

    def __init__(self, rank: int, exchange: Exchange, device: int, store: Store) -> None:
        super().__init__(rank, exchange, "PyTorch's symmetric memory")
        # groups of a job are made in the same order at all their ranks; the store tells them apart
        self._name, self._device = f"treadle-lanes-{next(_NUMBERS)}", device
        self._kept: list[Any] = []
        self._open(lambda: self._set_name(store))

    def _set_name(self, store: Store) -> None:
        n_ranks = len(self.exchange(b""))

        def begin() -> None:
            gpu_library().call("treadle_peer_device", self._device)
            _SymmetricMemory.set_group_info(self._name, self.rank, n_ranks, store)

        self._together(begin)

    def _allocate(self, size: int, groups: Sequence[tuple[int, ...]]) -> PeerBlock:
        """See `PeerMemory`; a group of all ranks has an address where PyTorch has one."""
        handle = self._together(lambda: self._rendezvous(size))
        whole, address = tuple(range(self.n_ranks)), int(handle.multicast_ptr)
        has_all = self._have_all(address)
        if not has_all:
            self.no_multicast = "PyTorch has no multicast address here: that takes NVSwitch with SHARP"
        multicast = {whole: address} if has_all and whole in groups else {}
        return PeerBlock(size, tuple(map(int, handle.buffer_ptrs)), multicast)

    def _rendezvous(self, size: int) -> Any:
        tensor: Any = symmetric.empty(size, dtype=torch.uint8, device=torch.device("cuda", self._device))
        handle: Any = symmetric.rendezvous(tensor, self._name)
        tensor.zero_()
        torch.cuda.synchronize(self._device)
        self._kept += [tensor, handle]
        return handle

    def close(self) -> None:
        """Drop the tensors."""
        self._kept = []
