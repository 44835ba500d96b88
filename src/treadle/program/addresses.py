"""Positions of chunks in the buffers of a rank, for formats that address buffers by position."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array, ranges_of
from treadle.program.program import Buffer, Program

_SCRATCH = int(Buffer.SCRATCH)  # compared millions of times; members of enumerations are slow


class Addresses:
    """Positions in the buffers of one rank, in chunks; scratch holds only the chunks that are used."""

    def __init__(self, program: Program, rank: int) -> None:
        self._ranges = {int(buffer): program.ranges(rank, buffer) for buffer in (Buffer.INPUT, Buffer.OUTPUT)}
        self.input_chunks, self.output_chunks = (
            # A buffer that only the root has is declared everywhere.
            sum(past - low for low, past in ranges) if ranges else program.n_chunks
            for ranges in self._ranges.values()
        )
        first, count = program.named_in_scratch(rank)
        self.scratch: Int64Array = np.unique(ranges_of(first, count)[1])

    def offset(self, buffer: int, chunk: int) -> int:
        """Return the number of chunks before `chunk` in `buffer`."""
        if buffer == _SCRATCH:
            return int(np.searchsorted(self.scratch, chunk))
        return sum(min(past, chunk) - low for low, past in self._ranges[buffer] if low < chunk)
