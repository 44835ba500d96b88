"""What may be asked of a text, and which formats heed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from treadle.errors import ScheduleError
from treadle.formats.msccl.writer import Profile
from treadle.planning.writing.lowered import TargetFormat

AUTO_CHUNKS = "auto"
"""The plan's chunks, or others that serve more sizes at next to no cost."""
PLAN_CHUNKS = "plan"
"""The plan's chunks, whatever sizes they serve."""
MAX_CHUNKS = 2**20
"""Most parts of a shard."""


@dataclass(frozen=True)
class TextOptions:
    """Everything that shapes a text; the defaults are what every format does.

    Parameters
    ----------
    profile : Profile, optional
        Dialect and limits of the runtime; default: azure.
    in_place : bool
        Whether the text serves calls whose input and output are one memory, or the others.
    channels : int
        Streams between two ranks that the trees are dealt out to.
    instances : int
        Copies of the schedule side by side, each on its part of every shard.
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
    """

    profile: Profile | None = None
    in_place: bool = False
    channels: int = 1
    instances: int = 1
    name: str | None = None
    pipeline_bytes: int = 0
    size_bytes: int = 0
    consolidate: bool = False
    rank: int | None = None
    chunks: int | str = AUTO_CHUNKS
    accept_any_root: bool = False


_PROGRAM = frozenset({"in_place", "channels", "instances", "name"})
HEEDED: Mapping[TargetFormat, frozenset[str]] = MappingProxyType(
    {
        TargetFormat.MSCCL_XML: _PROGRAM | {"profile", "consolidate", "chunks", "accept_any_root"},
        # its thread blocks work in parallel whatever the channels of the program
        TargetFormat.MSCCLPP_JSON: _PROGRAM - {"channels"} | {"pipeline_bytes", "chunks", "accept_any_root"},
        TargetFormat.CPU_XML: _PROGRAM | {"rank"},
        TargetFormat.NCCL_GRAPH: frozenset[str](),
        TargetFormat.CHAKRA: _PROGRAM | {"rank", "size_bytes"},
    }
)
"""The options that make a difference to each format's text."""


def check_options(target: TargetFormat, options: TextOptions) -> None:
    """Refuse options that a format does not heed, and chunks that cannot be; ScheduleError."""
    chunks = options.chunks
    if chunks not in (AUTO_CHUNKS, PLAN_CHUNKS) and not (
        isinstance(chunks, int) and 1 <= chunks <= MAX_CHUNKS
    ):
        raise ScheduleError(
            f"--chunks {str(chunks)[:40]}: expected {AUTO_CHUNKS}, {PLAN_CHUNKS} or 1 to {MAX_CHUNKS}"
        )
    for field in fields(options):
        if getattr(options, field.name) == field.default or field.name in HEEDED[target]:
            continue
        *several, last = [str(other) for other in TargetFormat if field.name in HEEDED[other]]
        heeding = f"{', '.join(several)} and {last}" if several else last
        raise ScheduleError(
            f"{spelt(field.name)} is for {heeding}; {target} has nothing that it could change"
        )


def spelt(name: str) -> str:
    """An option as on the command line.

    Examples
    --------
    >>> spelt("pipeline_bytes")
    '--pipeline'
    """
    return "--" + name.removesuffix("_bytes").replace("_", "-")
