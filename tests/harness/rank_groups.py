"""Ranks that launch their own lanes, as threads or processes of this host."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from time import sleep

from tools.rank_check import FolderExchange

from harness.fake_gpu import live
from treadle.runtime.device.memory.gpu_library import gpu_library
from treadle.runtime.device.memory.peer_memory import Exchange, IpcMemory, OneProcessMemory, PeerMemory
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


def _process(
    number: int,
    n: int,
    folder: Path,
    work: Callable[[RankBlocks], object],
    told: object,
    memory: MemoryOf,
) -> None:
    with RankBlocks(memory(number, FolderExchange(folder, number, n)), limit_s=30.0) as lanes:
        found = work(lanes)
        lanes.memory.barrier()
    told.put((number, found, live(Path(gpu_library().c._name))))  # type: ignore[attr-defined]


def in_processes(
    n: int, folder: Path, work: Callable[[RankBlocks], object], *, memory: MemoryOf = IpcMemory
) -> list[object]:
    """The same in processes that open each other's memory; none leaves any behind."""
    context = multiprocessing.get_context("fork")
    told = context.Queue()
    running = [
        context.Process(target=_process, args=(rank, n, folder, work, told, memory)) for rank in range(n)
    ]
    for one in running:
        one.start()
    try:
        rows = [told.get(timeout=120) for _ in running]
    finally:
        for one in running:
            one.join(5)
            one.kill()
    assert [left for _, _, left in rows] == [0] * n
    return [found for _, found, _ in sorted(rows)]
