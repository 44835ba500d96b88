"""What may be asked of a text; each format's record says which of it the format heeds."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from treadle.errors import ScheduleError

if TYPE_CHECKING:
    from treadle.formats.msccl.profile import Profile

AUTO_CHUNKS = "auto"
"""The plan's chunks, or others that serve more sizes at next to no cost."""
PLAN_CHUNKS = "plan"
"""The plan's chunks, whatever sizes they serve."""
MAX_CHUNKS = 2**20
"""Most parts of a shard."""
PROTOCOLS = ("Simple", "LL", "LL128")
"""Of NCCL and what was made of it: memory then flag, 4 bytes with 4 of flag, 120 with 8."""


@dataclass(frozen=True)
class FileOptions:
    """Everything that shapes a text; the defaults are what every format does.

    Parameters
    ----------
    profile : Profile, optional
        Dialect and limits of the runtime; default: azure.
    in_place : bool
        Whether the text serves calls whose input and output are one memory, or the others.
    channels : int
        Streams between two ranks that the trees are assigned to.
    instances : int, optional
        Copies of the schedule side by side, each on its part of every shard. Default: as many as its thread
        blocks need where the format has thread blocks, else 1.
    name : str, optional
        The algorithm's name in the text.
    pipeline_bytes : int
        Slices of so many bytes flow through the plan; 0: none.
    size_bytes : int
        Size of the larger per-rank buffer, which a trace holds; 0: none.
    consolidate : bool
        Scattered messages of one step between two ranks are gathered in scratch and sent as one.
    rank : int, optional
        This rank's part alone.
    chunks : int or str
        Parts of a shard, or of the whole buffer where calls count that; `AUTO_CHUNKS` or `PLAN_CHUNKS`.
    accept_any_root : bool
        A broadcast or reduce is written although the runtime will not compare the root.
    protocol : str, optional
        One of `PROTOCOLS`, how the runtime's messages carry their flags. Default: that of the plan, where its
        cost model knows protocols, else Simple.
    min_size_bytes, max_size_bytes : int
        First and last size of the larger per-rank buffer that texts are written for; 0: as the plan.
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
    """Refuse chunks that cannot be; ScheduleError."""
    if chunks not in (AUTO_CHUNKS, PLAN_CHUNKS) and not (
        isinstance(chunks, int) and 1 <= chunks <= MAX_CHUNKS
    ):
        raise ScheduleError(
            f"--chunks {str(chunks)[:40]}: expected {AUTO_CHUNKS}, {PLAN_CHUNKS} or 1 to {MAX_CHUNKS}"
        )


def check_protocol(protocol: str | None) -> None:
    """Refuse a protocol that no runtime has; ScheduleError."""
    if protocol is not None and protocol not in PROTOCOLS:
        raise ScheduleError(f"--protocol {protocol[:40]}: expected {', '.join(PROTOCOLS)}")


def given_options(options: FileOptions) -> tuple[str, ...]:
    """Names of the fields that differ from their defaults.

    Examples
    --------
    >>> given_options(FileOptions(channels=2, name="two"))
    ('channels', 'name')
    """
    return tuple(field.name for field in fields(options) if getattr(options, field.name) != field.default)


def spelt(name: str) -> str:
    """An option as on the command line.

    Examples
    --------
    >>> spelt("pipeline_bytes")
    '--pipeline'
    """
    return "--" + name.removesuffix("_bytes").replace("_", "-")
