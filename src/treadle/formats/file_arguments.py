"""What every text that a program is written as asks of its name, sizes and shards."""

from __future__ import annotations

import re

import numpy as np

from treadle.errors import FormatError, ScheduleError
from treadle.program.program import Program
from treadle.schedules.collective import CollectiveKind

MOST_CHUNKS = 4 * 10**6
"""Most chunks in all buffers of all ranks for which MSCCL XML and MSCCL++ plans are written."""

_WITH_SHARDS = (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLTOALL)


def runtime_name(kind: CollectiveKind) -> str:
    """Return a collective as NCCL and MSCCL spell it."""
    return kind.value.replace("-", "")


def check_heading(what: str, name: str, min_bytes: int, max_bytes: int) -> None:
    """Refuse names and ranges of sizes (bytes; max_bytes 0 is no limit) that cannot be; FormatError.

    Parameters
    ----------
    what : str
        The format, for the message.
    name : str
        Of the algorithm: letters, digits and ``_.-``, so that no text needs to escape it.
    min_bytes, max_bytes : int
    """
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", name):
        raise FormatError(f"{what}: name {name!r}: expected letters, digits and _.- only")
    if min_bytes < 0 or max_bytes < 0 or 0 < max_bytes < min_bytes:
        raise FormatError(f"{what}: sizes {min_bytes} to {max_bytes} bytes are no range")


def has_equal_shards(program: Program) -> bool:
    """Whether all shards have as many chunks, where the collective has shards."""
    sizes = np.diff(program.shard_offset)
    return program.kind not in _WITH_SHARDS or sizes.min() == sizes.max()


def check_equal_shards(what: str, program: Program) -> None:
    """Refuse programs with unequal shards, where the format has no weights; ScheduleError."""
    if not has_equal_shards(program):
        sizes = np.diff(program.shard_offset)
        raise ScheduleError(
            f"{what}: {program.kind} with unequal shards ({sizes.min()} to {sizes.max()} chunks) cannot be "
            "expressed: the format has no weights; solve without them, or execute the plan by treadle run"
        )


def check_chunk_count(what: str, chunks: int, remedy: str) -> None:
    """Refuse texts of so many chunks that readers refuse them; ScheduleError."""
    if chunks > MOST_CHUNKS:
        raise ScheduleError(
            f"{what}: {chunks} chunks in all buffers together, expected at most {MOST_CHUNKS}; {remedy}"
        )
