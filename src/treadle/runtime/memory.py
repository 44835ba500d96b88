"""Buffers of a rank at one size: allocation, addresses of chunks and their slices, inputs and the check."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.program.program import Buffer, Program
from treadle.runtime.data import Pattern
from treadle.schedules.collective import CollectiveKind


@dataclass(frozen=True)
class Layout:
    """Positions of chunks when a program runs on a given number of elements.

    A slice is the same fraction of every chunk: slice s of S of a chunk of n elements is its elements
    floor(s * n / S) to floor((s + 1) * n / S). Slices never mix, so a program runs on each independently.

    Parameters
    ----------
    count : int
        Elements of the larger per-rank buffer, >= 0.
    n_slices : int
        S >= 1.
    """

    program: Program
    count: int
    n_slices: int = 1

    def spans(self, rank: int, buffer: Buffer) -> list[tuple[int, int]]:
        """Elements of the collective's whole buffer that a rank's buffer has: ranges, some perhaps empty."""
        return [
            (self.program.element(first, self.count), self.program.element(past, self.count))
            for first, past in self.program.ranges(rank, buffer)
        ]

    def length(self, rank: int, buffer: Buffer) -> int:
        """Elements of a rank's buffer."""
        return sum(past - first for first, past in self.spans(rank, buffer))

    @cached_property
    def _starts(self) -> list[int]:
        return [self.program.element(chunk, self.count) for chunk in range(self.program.n_addresses + 1)]

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


def position_in(ranges: Sequence[tuple[int, int]]) -> Callable[[int], int]:
    """Return the position of an element of the whole buffer in a rank's buffer of these ascending ranges."""
    firsts = [first for first, _ in ranges]
    begins = accumulate((past - first for first, past in ranges), initial=0)
    shifts = [begin - first for begin, first in zip(begins, firsts, strict=False)] or [0]
    return lambda element: element + shifts[max(0, bisect_right(firsts, element) - 1)]


@dataclass(frozen=True, eq=False)
class RankMemory:
    """The buffers of one rank.

    Parameters
    ----------
    arrays : mapping of Buffer to array of one dimension
        Buffers that do not exist are empty. In place, INPUT and OUTPUT share memory.
    spans : mapping of Buffer to list of (first, past)
        Elements of the collective's whole buffer that lie in the array, one range after another.
    """

    arrays: Mapping[Buffer, NDArray[Any]]
    spans: Mapping[Buffer, Sequence[tuple[int, int]]]

    @cached_property
    def _positions(self) -> dict[Buffer, Callable[[int], int]]:
        return {buffer: position_in(spans) for buffer, spans in self.spans.items()}

    def view(self, buffer: Buffer, start: int, end: int) -> NDArray[Any]:
        """A view of elements `start` to `end` - 1 of the collective's whole buffer, all of one range."""
        first = self._positions[buffer](start)
        return self.arrays[buffer][first : first + end - start]

    def parts(self, buffer: Buffer) -> Iterator[tuple[int, NDArray[Any]]]:
        """Every range of a buffer: its first element, and a view of it."""
        place = 0
        for first, past in self.spans[buffer]:
            yield first, self.arrays[buffer][place : place + past - first]
            place += past - first


def allocate(
    layout: Layout, rank: int, dtype: np.dtype[Any], *, storage: RankMemory | None = None
) -> RankMemory:
    """Memory for the buffers that `rank` has; contents undefined.

    Parameters
    ----------
    storage : RankMemory, optional
        The rank's memory for the same program and dtype at this size or a larger one, to be used again.
    """
    program = layout.program
    spans = {buffer: layout.spans(rank, buffer) for buffer in Buffer}
    arrays: dict[Buffer, NDArray[Any]] = {}
    for buffer in Buffer:
        length = layout.length(rank, buffer)
        # by the floor rule a shard may be longer by one element at a smaller size
        room = np.empty(0, dtype=dtype) if storage is None else storage.arrays[buffer]
        arrays[buffer] = room[:length] if len(room) >= length else np.empty(length, dtype=dtype)
    if not program.uses_scratch(rank):
        arrays[Buffer.SCRATCH] = np.empty(0, dtype=dtype)
    if program.in_place:
        # one of the two covers the other, or does not exist; both are one range
        large, small = sorted((Buffer.INPUT, Buffer.OUTPUT), key=lambda b: -len(arrays[b]))
        if len(arrays[small]):
            low, high = (element - spans[large][0][0] for element in spans[small][0])
            arrays[small] = arrays[large][low:high]
    return RankMemory(arrays, spans)


def is_same_memory(program: Program, one: Buffer, other: Buffer) -> bool:
    """Whether a chunk has the same address in two buffers of a rank."""
    return one is other or (program.in_place and Buffer.SCRATCH not in (one, other))


def fill_input(rank: int, memory: RankMemory, pattern: Pattern) -> None:
    """Write the rank's input."""
    for start, part in memory.parts(Buffer.INPUT):
        pattern.fill(rank, part, start=start)


def count_wrong(layout: Layout, rank: int, memory: RankMemory, pattern: Pattern) -> int:
    """Count the elements of a rank's OUTPUT that differ from the collective's result."""
    program, kind = layout.program, layout.program.kind
    if kind.reduces or kind is CollectiveKind.BROADCAST:
        return sum(
            pattern.count_wrong_result(part, start=start)
            if kind.reduces
            else pattern.count_wrong_copy(program.root, part, start=start)
            for start, part in memory.parts(Buffer.OUTPUT)
        )
    wrong = 0
    for owner in range(program.n_ranks):
        shard = program.shard(owner * program.n_ranks + rank if kind is CollectiveKind.ALLTOALL else owner)
        low, high = (program.element(chunk, layout.count) for chunk in shard)
        wrong += pattern.count_wrong_copy(owner, memory.view(Buffer.OUTPUT, low, high), start=low)
    return wrong
