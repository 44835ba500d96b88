"""Buffers of a rank at one size: allocation, addresses of chunks and their slices, inputs and the check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.lowering.program import Buffer, Program
from treadle.runtime.data import Pattern
from treadle.schedules.collective import CollectiveKind


@dataclass(frozen=True)
class Layout:
    """Where chunks lie when a program runs on a given number of elements.

    A slice is the same fraction of every chunk: slice s of S of a chunk of n elements is its elements
    floor(s * n / S) to floor((s + 1) * n / S). Slices never mix, so a program runs on each independently.

    Parameters
    ----------
    program : Program
    count : int
        Elements of the larger per-rank buffer, >= 0.
    n_slices : int
        S >= 1.
    """

    program: Program
    count: int
    n_slices: int = 1

    def span(self, rank: int, buffer: Buffer) -> tuple[int, int]:
        """First and one past the last element that a rank's buffer has, in the collective's whole buffer."""
        first, past = self.program.extent(rank, buffer)
        return self.program.element(first, self.count), self.program.element(past, self.count)

    @cached_property
    def _starts(self) -> list[int]:
        return [self.program.element(chunk, self.count) for chunk in range(self.program.n_chunks + 1)]

    @cached_property
    def _chunks(self) -> list[tuple[int, int]]:
        past = self.program.first + self.program.count
        return list(zip(self.program.first.tolist(), past.tolist(), strict=True))

    def ranges(self, operation: int, piece: int) -> Iterator[tuple[int, int]]:
        """Contiguous element ranges of slice `piece` of an operation's chunks, empty ones left out."""
        first, past = self._chunks[operation]
        starts = self._starts
        if self.n_slices == 1:
            if starts[past] > starts[first]:
                yield starts[first], starts[past]
            return
        for chunk in range(first, past):
            start, end = starts[chunk], starts[chunk + 1]
            low = start + (end - start) * piece // self.n_slices
            high = start + (end - start) * (piece + 1) // self.n_slices
            if high > low:
                yield low, high


def slices_for(program: Program, count: int, *, element_bytes: int, slice_bytes: int) -> int:
    """The number of slices that keeps a slice of a chunk at `slice_bytes` bytes at most."""
    chunk_bytes = -(-count // program.n_chunks) * element_bytes
    return max(1, -(-chunk_bytes // slice_bytes))


@dataclass(frozen=True, eq=False)
class RankMemory:
    """The buffers of one rank.

    Parameters
    ----------
    arrays : mapping of Buffer to array of one dimension
        Buffers that do not exist are empty. In place, INPUT and OUTPUT share memory.
    origin : mapping of Buffer to int
        Element of the collective's whole buffer that comes first in the array.
    """

    arrays: Mapping[Buffer, NDArray[Any]]
    origin: Mapping[Buffer, int]

    def view(self, buffer: Buffer, start: int, end: int) -> NDArray[Any]:
        """Elements `start` to `end` - 1 of the collective's whole buffer, as a view."""
        origin = self.origin[buffer]
        return self.arrays[buffer][start - origin : end - origin]


def allocate(
    layout: Layout, rank: int, dtype: np.dtype[Any], *, storage: RankMemory | None = None
) -> RankMemory:
    """Memory for the buffers that `rank` has; contents undefined.

    Parameters
    ----------
    layout : Layout
    rank : int
    dtype : numpy dtype
    storage : RankMemory, optional
        The rank's memory for the same program and dtype at this size or a larger one, to be used again.
    """
    program = layout.program
    spans = {buffer: layout.span(rank, buffer) for buffer in Buffer}
    origin = {buffer: span[0] for buffer, span in spans.items()}
    lengths = {buffer: past - first for buffer, (first, past) in spans.items()}
    arrays: dict[Buffer, NDArray[Any]] = {}
    for buffer, length in lengths.items():
        # by the floor rule a shard may be longer by one element at a smaller size
        room = np.empty(0, dtype=dtype) if storage is None else storage.arrays[buffer]
        arrays[buffer] = room[:length] if len(room) >= length else np.empty(length, dtype=dtype)
    if not program.uses_scratch(rank):
        arrays[Buffer.SCRATCH] = np.empty(0, dtype=dtype)
    if program.in_place:
        # one of the two covers the other, or does not exist
        large, small = sorted((Buffer.INPUT, Buffer.OUTPUT), key=lambda b: -len(arrays[b]))
        if len(arrays[small]):
            low, high = (element - origin[large] for element in spans[small])
            arrays[small] = arrays[large][low:high]
    return RankMemory(arrays, origin)


def is_same_memory(program: Program, one: Buffer, other: Buffer) -> bool:
    """Whether a chunk has the same address in two buffers of a rank."""
    return one is other or (program.in_place and Buffer.SCRATCH not in (one, other))


def fill_input(rank: int, memory: RankMemory, pattern: Pattern) -> None:
    """Write the rank's input."""
    pattern.fill(rank, memory.arrays[Buffer.INPUT], start=memory.origin[Buffer.INPUT])


def count_wrong(layout: Layout, memory: RankMemory, pattern: Pattern) -> int:
    """Elements of a rank's OUTPUT that are not what the collective's definition asks for."""
    program, output = layout.program, memory.arrays[Buffer.OUTPUT]
    start = memory.origin[Buffer.OUTPUT]
    if program.kind.reduces:
        return pattern.count_wrong_result(output, start=start)
    if program.kind is CollectiveKind.BROADCAST:
        return pattern.count_wrong_copy(program.root, output, start=start)
    wrong = 0
    for owner in range(program.n_ranks):
        low, high = (program.element(chunk, layout.count) for chunk in program.shard(owner))
        wrong += pattern.count_wrong_copy(owner, memory.view(Buffer.OUTPUT, low, high), start=low)
    return wrong
