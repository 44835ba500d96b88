"""Where a rank's chunks lie in its buffers, for formats that address buffers by place."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array
from treadle.program.program import Buffer, Program

_SCRATCH = int(Buffer.SCRATCH)  # asked for millions of times, where members of enumerations are slow


class Addresses:
    """Places in one rank's buffers, in chunks; scratch holds only the chunks that are used."""

    def __init__(self, program: Program, rank: int) -> None:
        self._ranges = {int(buffer): program.ranges(rank, buffer) for buffer in (Buffer.INPUT, Buffer.OUTPUT)}
        self.input_chunks, self.output_chunks = (
            # a buffer that only the root has is declared everywhere
            sum(past - low for low, past in ranges) if ranges else program.n_chunks
            for ranges in self._ranges.values()
        )
        first, count = program.named_in_scratch(rank)
        before = np.cumsum(count) - count
        self.scratch: Int64Array = np.unique(np.repeat(first - before, count) + np.arange(count.sum()))

    def offset(self, buffer: int, chunk: int) -> int:
        """Chunks before `chunk` in `buffer`."""
        if buffer == _SCRATCH:
            return int(np.searchsorted(self.scratch, chunk))
        return sum(min(past, chunk) - low for low, past in self._ranges[buffer] if low < chunk)
