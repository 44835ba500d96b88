"""Checks of a program's name, sizes and shards that the writers of several formats share."""

from __future__ import annotations

import re

import numpy as np

from treadle.errors import FormatError, ScheduleError
from treadle.formats.selection.supported_sizes import SHARDED_KINDS
from treadle.program.program import Program
from treadle.schedules.collective import CollectiveKind

MOST_CHUNKS = 4 * 10**6
"""Most chunks in all buffers of all ranks for which MSCCL XML and MSCCL++ plans are written."""


def runtime_name(kind: CollectiveKind) -> str:
    """Return a collective as NCCL and MSCCL spell it."""
    return kind.value.replace("-", "")


def check_heading(what: str, name: str, min_bytes: int, max_bytes: int) -> None:
    """Raise FormatError for an invalid name or size range (bytes; `max_bytes` 0 means unlimited).

    `what` is the format, for messages. Names have only A-Z, a-z, 0-9 and ``_.-``, so no format escapes them.
    """
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", name):
        raise FormatError(f"{what}: name {name!r}: expected only A-Z, a-z, 0-9 and _.-")
    if min_bytes < 0 or max_bytes < 0 or 0 < max_bytes < min_bytes:
        raise FormatError(f"{what}: sizes {min_bytes} to {max_bytes} bytes are not a range")


def has_equal_shards(program: Program) -> bool:
    """Whether all shards have equally many chunks, or the collective has no shards."""
    sizes = np.diff(program.shard_offset)
    return program.kind not in SHARDED_KINDS or sizes.min() == sizes.max()


def check_equal_shards(what: str, program: Program) -> None:
    """Raise ScheduleError for unequal shards, which a format without weights cannot express."""
    if not has_equal_shards(program):
        sizes = np.diff(program.shard_offset)
        raise ScheduleError(
            f"{what}: {program.kind} with unequal shards ({sizes.min()} to {sizes.max()} chunks) cannot be "
            "expressed: the format has no weights; solve without them, or execute the plan by treadle run"
        )


def check_chunk_count(what: str, chunks: int, fix: str) -> None:
    """Raise ScheduleError for more chunks than the format's reader accepts."""
    if chunks > MOST_CHUNKS:
        raise ScheduleError(
            f"{what}: {chunks} chunks in all buffers together, expected at most {MOST_CHUNKS}; {fix}"
        )
