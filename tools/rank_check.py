"""Launches of one rank's lanes on data of which every element is checked, alike at all ranks of a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

import numpy as np

from treadle.errors import MissingDependencyError, ScheduleError
from treadle.program.program import Buffer
from treadle.runtime.data import Pattern, numpy_dtype
from treadle.runtime.device.checked_blocks import ELEMENT_CODES
from treadle.runtime.device.memory.gpu_library import gpu_library
from treadle.runtime.device.memory.peer_memory import PeerBlock
from treadle.runtime.device.rank_blocks import AdmittedBlocks, PreparedBlocks, RankBlocks, RankBuffers
from treadle.runtime.measured_sizes import group_pattern as pattern_of
from treadle.runtime.memory import Layout, RankMemory, allocate, count_wrong, fill_input
from treadle.runtime.run_options import RunOptions


class FolderExchange:
    """Processes of one host tell each other bytes through files of a folder that they share.

    Parameters
    ----------
    folder : Path
    rank, n_ranks : int
    limit_s : float
        Longest wait for a peer.
    """

    def __init__(self, folder: Path, rank: int, n_ranks: int, limit_s: float = 60.0) -> None:
        self._folder, self._rank, self._n_ranks, self._limit_s = folder, rank, n_ranks, limit_s
        self._turn = 0

    def __call__(self, said: bytes) -> list[bytes]:
        """What all ranks say in this turn.

        Raises
        ------
        MissingDependencyError
            If a rank says nothing for too long.
        """
        own = self._folder / f"{self._turn}.{self._rank}"
        partial = own.with_suffix(f".{self._rank}.partial")
        partial.write_bytes(said)
        partial.rename(own)
        found = [self._read(self._folder / f"{self._turn}.{rank}", rank) for rank in range(self._n_ranks)]
        self._turn += 1
        return found

    def _read(self, path: Path, rank: int) -> bytes:
        end = monotonic() + self._limit_s
        while not path.exists():
            if monotonic() > end:
                raise MissingDependencyError(f"rank {rank} has said nothing for {self._limit_s:g} s")
            sleep(0.001)
        return path.read_bytes()


@dataclass(frozen=True)
class Launched:
    """A launch's input and output: on the GPU, and what they must be."""

    memory: RankMemory
    pattern: Pattern
    block: int
    buffers: tuple[int, int]


class CheckedRank:
    """Launches lanes at one rank, one launch behind another, and counts wrong elements.

    Parameters
    ----------
    rank_lanes : RankBlocks
    asked : RunOptions
        Element type, reduction, seed and slices.
    block : PeerBlock, optional
        Where buffers lie so that peers reach them.
    through : bool
        Whether buffers are copied to and from the two halves of the block, in place of lying in it.
    """

    def __init__(
        self,
        rank_lanes: RankBlocks,
        asked: RunOptions,
        block: PeerBlock | None = None,
        *,
        through: bool = False,
    ) -> None:
        self._lanes, self._asked = rank_lanes, asked
        self._block, self._through, self._past = block, through, 0
        self._library = gpu_library()

    def prepared(self, admitted: AdmittedBlocks, count: int, slice_bytes: int) -> PreparedBlocks:
        """A program at a size, in the element type that was asked for."""
        element = self._asked.element
        return self._lanes.prepare(
            admitted,
            count,
            element=ELEMENT_CODES[element],
            element_bytes=element.n_bytes,
            slice_bytes=slice_bytes,
        )

    def wrong(self, programs: Sequence[tuple[PreparedBlocks, int]], *, threads: int) -> int:
        """Launch programs, each with its number of elements, and count what is wrong at this rank.

        Raises
        ------
        ScheduleError
            If a launch is refused, or a wait was given up.
        """
        begun = [self._placed(one, count, turn) for turn, (one, count) in enumerate(programs)]
        try:
            for (one, _), launched in zip(programs, begun, strict=True):
                self._lanes.launch(one, self._given(launched), self._asked.reduction, threads=threads)
            return sum(
                self._wrong(one.admitted, count, launched)
                for (one, count), launched in zip(programs, begun, strict=True)
            )
        finally:
            for launched in begun:
                if launched.block:
                    self._library.c.treadle_peer_free(launched.block)

    def _placed(self, prepared: PreparedBlocks, count: int, turn: int) -> Launched:
        """Buffers on the GPU that lie to each other as on the host, rubbish where no input is."""
        lanes = prepared.admitted.lanes
        rank = self._lanes.memory.rank
        memory = allocate(Layout(lanes.program, count), rank, numpy_dtype(self._asked.element))
        pattern = pattern_of(lanes.program, count, self._asked, 0, turn)
        for one in memory.arrays.values():
            one.view(np.uint8)[...] = 0xFF
        fill_input(rank, memory, pattern)
        given = [memory.arrays[buffer] for buffer in (Buffer.INPUT, Buffer.OUTPUT)]
        starts, at, past = [], 0, 0
        if lanes.program.in_place and all(one.nbytes for one in given):
            low = min(one.ctypes.data for one in given)
            starts = [one.ctypes.data - low for one in given]
            past = max(start + one.nbytes for start, one in zip(starts, given, strict=True))
        else:
            for one in given:
                starts.append(at)
                at = past = at + -(-one.nbytes // 256) * 256
        if self._block is not None and not self._through:
            block, at = 0, self._room(count, starts, in_place=lanes.program.in_place)
        else:
            block = at = self._library.address("treadle_peer_allocate", past + 16)
        for start, one in reversed(
            list(zip(starts, given, strict=True))
        ):  # the input last, where both are one
            if one.nbytes:
                self._library.call("treadle_peer_write", at + start, one.ctypes.data, one.nbytes)
        return Launched(memory, pattern, block, (at + starts[0], at + starts[1]))

    def _room(self, count: int, starts: list[int], *, in_place: bool) -> int:
        """The next free place of the block, the same at all ranks; `starts` are of INPUT and OUTPUT in it."""
        assert self._block is not None
        room = -(-count * self._asked.element.n_bytes // 256) * 256 + 16
        room += -room % 256
        if not in_place:
            starts[:] = [0, room]
        at = self._block.addresses[self._lanes.memory.rank] + self._past
        self._past += room if in_place else 2 * room
        assert self._past <= self._block.size
        return at

    def _given(self, launched: Launched) -> RankBuffers:
        block = self._block
        if block is None:
            return RankBuffers(launched.buffers)
        if not self._through:
            return RankBuffers(launched.buffers, (block, block))
        at = block.addresses[self._lanes.memory.rank]
        sizes = [launched.memory.arrays[buffer].nbytes for buffer in (Buffer.INPUT, Buffer.OUTPUT)]
        given, wanted = zip(launched.buffers, sizes, strict=True)
        return RankBuffers((at, at + block.size // 2), (block, block), given, wanted)

    def _wrong(self, admitted: AdmittedBlocks, count: int, launched: Launched) -> int:
        rank, output = self._lanes.memory.rank, launched.memory.arrays[Buffer.OUTPUT]
        if output.nbytes:
            self._library.call("treadle_peer_read", output.ctypes.data, launched.buffers[1], output.nbytes)
        problem = self._lanes.failure()
        if problem:
            raise ScheduleError(problem)
        layout = Layout(admitted.lanes.program, count)
        return count_wrong(layout, rank, launched.memory, launched.pattern)
