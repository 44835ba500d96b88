"""A group's memory of GPUs that all its ranks reach, or why there is none; the same at all ranks."""

from __future__ import annotations

import json
import socket
from datetime import timedelta
from pathlib import Path

from torch._C._distributed_c10d import Store

from treadle.errors import TreadleError
from treadle.runtime.device.block_program import DeviceProtocol
from treadle.runtime.device.memory.cumem import CuMemMemory
from treadle.runtime.device.memory.gpu_library import gpu_library
from treadle.runtime.device.memory.peer_memory import Exchange, IpcMemory, PeerMemory
from treadle.runtime.device.rank_blocks import RankBlocks
from treadle.torch.gpu.gpu_settings import GpuMemory, GpuMethod, GpuSettings

NETWORK_THREADS = 256
"""Most of a block of the kernels that cross hosts."""
ROOM_THREADS = 512
"""Threads per block for which ranks agree on the number of blocks."""


class StoreExchange:
    """Ranks of a group exchange bytes through its store; see `Exchange`."""

    def __init__(self, store: Store, rank: int, n_ranks: int, timeout: timedelta) -> None:
        self._store, self._rank, self._n_ranks, self._timeout = store, rank, n_ranks, timeout
        self._turn = 0

    def __call__(self, said: bytes) -> list[bytes]:
        """Return the bytes of all ranks in this round."""
        keys = [f"gpu/{self._turn}/{rank}" for rank in range(self._n_ranks)]
        self._turn += 1
        self._store.set(keys[self._rank], said.hex())
        self._store.wait(keys, self._timeout)
        return [bytes.fromhex(self._store.get(key).decode()) for key in keys]


def host_name() -> str:
    """Return an identifier of this host: its name and boot time."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()} {boot}"


class NoBlockProgramError(Exception):
    """Reason why a group's calls do not run as thread blocks; the same at all ranks.

    Parameters
    ----------
    is_between_hosts : bool
        Whether it is that ranks are on several hosts.
    """

    def __init__(self, words: str, *, is_between_hosts: bool = False) -> None:
        super().__init__(words)
        self.is_between_hosts = is_between_hosts


def open_blocks(
    exchange: Exchange,
    rank: int,
    device: int,
    settings: GpuSettings,
    *,
    limit_s: float,
    store: Store,
) -> tuple[RankBlocks, int]:
    """Return memory that all ranks reach, and the number of blocks that fit at every rank.

    Parameters
    ----------
    settings : GpuSettings
        Must be the same at all ranks.
    limit_s : float
        Longest wait within a launch.
    store : Store
        Of the group, for PyTorch's symmetric memory.

    Raises
    ------
    NoBlockProgramError
        At all ranks.
    """
    lacking = ""
    try:
        gpu_library()  # also where NCCL's is used: it writes the first flags
    except TreadleError as error:
        lacking = str(error)
    own = json.dumps([host_name(), repr(settings), lacking]).encode()
    said = [json.loads(one) for one in exchange(own)]
    hosts = {host for host, _, _ in said}
    for peer, (_, _, problem) in enumerate(said):
        if problem:
            raise NoBlockProgramError(f"rank {peer}: {problem}")
    if len({words for _, words, _ in said}) > 1:
        raise NoBlockProgramError("ranks have other options or TREADLE_GPU variables than others")
    if settings.way is GpuMethod.AUTO and len(hosts) > 1 and settings.memory is not GpuMemory.NCCL:
        raise NoBlockProgramError(
            f"its ranks are on {len(hosts)} hosts; TREADLE_GPU_MEMORY=nccl selects kernels that cross them",
            is_between_hosts=True,
        )
    lanes, room, problem = None, 0, ""
    try:
        memory = _memory(exchange, rank, device, settings.memory, store, has_far=len(hosts) > 1)
        lanes = RankBlocks(memory, limit_s=limit_s)
        threads = ROOM_THREADS if memory.network is None else NETWORK_THREADS
        room = min(lanes.max_blocks(one, 0, threads) for one in DeviceProtocol)
    except TreadleError as error:
        problem = str(error)
    found = [json.loads(one) for one in exchange(json.dumps([problem, room]).encode())]
    worst = next((f"rank {peer}: {words}" for peer, (words, _) in enumerate(found) if words), "")
    least = min(number for _, number in found)
    if worst or least < 1 or lanes is None:
        if lanes is not None:
            lanes.close()
        raise NoBlockProgramError(worst or "a GPU has room for no block of the kernel")
    return lanes, least


def _memory(
    exchange: Exchange, rank: int, device: int, kind: GpuMemory, store: Store, *, has_far: bool
) -> PeerMemory:
    # these load much, and are seldom asked for
    if kind is GpuMemory.SYMMETRIC:
        from treadle.torch.gpu.symmetric_memory import SymmetricMemory

        return SymmetricMemory(rank, exchange, device, store)
    if kind is GpuMemory.NCCL and has_far:
        from treadle.runtime.device.memory.nccl_network import NcclNetworkMemory

        return NcclNetworkMemory(rank, exchange, device)
    if kind is GpuMemory.NCCL:
        from treadle.runtime.device.memory.nccl_windows import NcclWindowMemory

        return NcclWindowMemory(rank, exchange, device)
    if kind is GpuMemory.CUMEM:
        return CuMemMemory(rank, exchange, device)
    return IpcMemory(rank, exchange, device)
