"""Options of the commands that check plans and write them for runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from treadle.options.rows import Options, arg, opt, positive, rare
from treadle.options.shared import Fabric, Rated, Read, Reporting

_PROFILES = "treadle.planning:Profile"


def _chunks(text: str, label: str) -> int | str:
    del label
    return int(text) if text.isascii() and text.isdigit() else text


class Verify(Read, Fabric, Rated):
    """Options of ``verify``."""

    plan: Path = arg("FILE", "A plan, or a runtime file; detected by content.")
    topology: Any = opt("Trusted fabric; default the one inside the plan.", metavar="TOPOLOGY")
    profile: Any = opt("MSCCL XML: limits of this runtime; default the first that fits.", choices=_PROFILES)
    root: int | None = opt("MSCCL: root of a broadcast or reduce; default 0.", metavar="RANK", least=0)


class RuntimeFileOptions(Options):
    """Options of runtime files."""

    in_place: bool = opt("Use one buffer for input and output.", False)
    channels: int = opt("Channels per pair of ranks.", 1, least=1, most=32)
    instances: int | None = opt(
        "Parallel copies of the schedule; default by thread blocks.", least=1, most=256
    )
    name: str | None = rare("Name of the algorithm in the file.")
    pipeline_bytes: int = opt("MSCCL++: pipeline in slices, e.g. 1MB.", 0, parse=positive)
    size_bytes: int = opt("Buffer size of a trace, or of the only file.", 0)
    consolidate: bool = rare("MSCCL XML: gather scattered messages and send them as one.", False)
    rank: int | None = rare("Only this rank's part (factored, cpu-xml, chakra).", metavar="R", least=0)
    chunks: int | str = opt(
        "Chunks per shard or buffer; auto: serve most sizes.", "auto", metavar="auto|plan|N", parse=_chunks
    )
    accept_any_root: bool = rare("Assume that all calls have the plan's root.", False)
    protocol: str | None = opt("NCCL protocol; default the plan's, else Simple.", metavar="Simple|LL|LL128")
    min_size_bytes: int = rare("First size to write files for, e.g. 1MB.", 0)
    max_size_bytes: int = rare("Last size to write files for.", 0)


class Lower(Read, RuntimeFileOptions, Reporting):
    """Options of ``lower``."""

    to: str = opt(
        "Format to write, e.g. msccl-xml, mscclpp-json, nccl-tuner, chakra.",
        "msccl-xml",
        metavar="FORMAT",
        words="formats",
    )
    output: str | None = opt("File, or folder ending in /; default stdout.", metavar="PATH", short="-o")
    profile: Any = opt("MSCCL XML: dialect and limits; default azure.", choices=_PROFILES, config="profile")
    group: int | None = rare("Only the file of this group.", metavar="G", least=0)
    in_place, channels, instances = (
        RuntimeFileOptions.in_place,
        RuntimeFileOptions.channels,
        RuntimeFileOptions.instances,
    )
