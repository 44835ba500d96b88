"""Options of runtime files; each format's record lists the options that it supports."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from treadle.errors import ScheduleError

if TYPE_CHECKING:
    from treadle.formats.msccl.profile import Profile

AUTO_CHUNKS = "auto"
"""The plan's chunks, or others that support more sizes at almost no cost."""
PLAN_CHUNKS = "plan"
"""The plan's chunks, whatever sizes they support."""
MAX_CHUNKS = 2**20
"""Most parts of a shard."""
PROTOCOLS = ("Simple", "LL", "LL128")
"""Protocols of NCCL and its derivatives: memory then flag, 4 bytes with 4 of flag, 120 bytes with 8."""


@dataclass(frozen=True)
class FileOptions:
    """Options of a runtime file; every format supports the defaults.

    Parameters
    ----------
    profile : Profile, optional
        Dialect and limits of the runtime; default: azure.
    in_place : bool
        Whether the file is for calls with input and output in the same memory, or for the others.
    channels : int
        Streams between two ranks to which the trees are assigned.
    instances : int, optional
        Concurrent copies of the schedule, each on its part of every shard. Default: as many as the thread
        blocks need, or 1 if the format has no thread blocks.
    name : str, optional
        Name of the algorithm in the file.
    pipeline_bytes : int
        Size of the slices that a pipeline sends; 0: no pipeline.
    size_bytes : int
        Size of the larger per-rank buffer, which traces contain; 0: none.
    consolidate : bool
        Gather scattered messages of one step between two ranks in scratch, and send them as one.
    rank : int, optional
        Write only this rank's part.
    chunks : int or str
        Parts of a shard, or of the entire buffer if calls count that; `AUTO_CHUNKS` or `PLAN_CHUNKS`.
    accept_any_root : bool
        Write a broadcast or reduce although the runtime does not compare the root.
    protocol : str, optional
        One of `PROTOCOLS`: how messages carry their flags. Default: the plan's, if its cost model has
        protocols, else Simple.
    min_size_bytes, max_size_bytes : int
        First and last size of the larger per-rank buffer for which files are written; 0: as in the plan.
    """

    profile: Profile | None = None
    in_place: bool = False
    channels: int = 1
    instances: int | None = None
    name: str | None = None
    pipeline_bytes: int = 0
    size_bytes: int = 0
    consolidate: bool = False
    rank: int | None = None
    chunks: int | str = AUTO_CHUNKS
    accept_any_root: bool = False
    protocol: str | None = None
    min_size_bytes: int = 0
    max_size_bytes: int = 0


def check_chunks(chunks: int | str) -> None:
    """Raise ScheduleError for an invalid number of chunks."""
    is_number = isinstance(chunks, int) and 1 <= chunks <= MAX_CHUNKS
    if not is_number and chunks not in (AUTO_CHUNKS, PLAN_CHUNKS):
        raise ScheduleError(
            f"--chunks {str(chunks)[:40]}: expected {AUTO_CHUNKS}, {PLAN_CHUNKS} or 1 to {MAX_CHUNKS}"
        )


def check_protocol(protocol: str | None) -> None:
    """Raise ScheduleError for an unknown protocol."""
    if protocol is not None and protocol not in PROTOCOLS:
        raise ScheduleError(f"--protocol {protocol[:40]}: expected {', '.join(PROTOCOLS)}")


def given_options(options: FileOptions) -> tuple[str, ...]:
    """Return the names of the fields that differ from their defaults.

    Examples
    --------
    >>> given_options(FileOptions(channels=2, name="two"))
    ('channels', 'name')
    """
    return tuple(field.name for field in fields(options) if getattr(options, field.name) != field.default)


def spelt(name: str) -> str:
    """Return an option as on the command line.

    Examples
    --------
    >>> spelt("pipeline_bytes")
    '--pipeline'
    """
    return "--" + name.removesuffix("_bytes").replace("_", "-")
