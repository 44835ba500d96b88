"""Ranks that launch their own lanes, as threads or processes of this host."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import sleep

from treadle.runtime.device.memory.peer_memory import Exchange, OneProcessMemory, PeerMemory
from treadle.runtime.device.rank_blocks import RankBlocks

MemoryOf = Callable[[int, Exchange], PeerMemory]
"""Of a rank and how it tells others."""


class ThreadExchange:
    """Ranks that are threads."""

    def __init__(self, n: int) -> None:
        self._said, self._met = [b""] * n, Barrier(n, timeout=60)

    def of(self, rank: int) -> Exchange:
        def exchange(said: bytes) -> list[bytes]:
            self._said[rank] = said
            self._met.wait()
            found = list(self._said)
            self._met.wait()
            return found

        return exchange


def in_threads(
    n: int,
    work: Callable[[RankBlocks], object],
    *,
    limit_s: float = 30.0,
    memory: MemoryOf = OneProcessMemory,
) -> list[object]:
    """What each rank's work returns; ranks are threads of this process."""
    together = ThreadExchange(n)

    def rank(number: int) -> object:
        with RankBlocks(memory(number, together.of(number)), limit_s=limit_s) as lanes:
            try:
                found = work(lanes)
            except Exception:
                traceback.print_exc()  # its peers still use its memory, and would die of it
                sleep(1)
                raise
            lanes.memory.barrier()
            return found

    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(rank, range(n)))
