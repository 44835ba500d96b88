"""PyTorch's symmetric memory as memory that peers reach; it has a multicast address where NVSwitch adds.

Never run on a GPU: PyTorch's part is tested by PyTorch, ours on a stand-in.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import torch
import torch.distributed._symmetric_memory as symmetric
from torch._C._distributed_c10d import Store, _SymmetricMemory

from treadle.runtime.device.peer_memory import BLOCK_BYTES, Exchange, PeerMemory, gpu_library

_NUMBERS = count()


class SymmetricMemory(PeerMemory):
    """A tensor of symmetric memory at each rank.

    Parameters
    ----------
    rank : int
    exchange : callable
    device : int
    store : Store
        Of the group.

    Raises
    ------
    MissingDependencyError
        At all ranks, if one cannot have it.
    """

    def __init__(self, rank: int, exchange: Exchange, device: int, store: Store) -> None:
        super().__init__(rank, exchange, "PyTorch's symmetric memory")
        n_ranks = len(exchange(b""))
        self._tensor: Any = None
        problem = ""
        try:
            # groups of a job are made in the same order at all their ranks; the store tells them apart
            name = f"treadle-lanes-{next(_NUMBERS)}"
            _SymmetricMemory.set_group_info(name, rank, n_ranks, store)
            gpu_library().said("treadle_peer_device", device)
            self._tensor = symmetric.empty(
                BLOCK_BYTES, dtype=torch.uint8, device=torch.device("cuda", device)
            )
            handle: Any = symmetric.rendezvous(self._tensor, name)
            self._tensor.zero_()
            torch.cuda.synchronize(device)
            self.blocks = tuple(map(int, handle.buffer_ptrs))
            self.multicast = int(handle.multicast_ptr)
            self._begin(n_ranks)
        except Exception as error:  # whatever it is, the other ranks must hear of it
            problem = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        self._agree(problem)

    def close(self) -> None:
        """Drop the tensor."""
        self._tensor = None
