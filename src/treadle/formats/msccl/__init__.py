"""MSCCL XML: what its writer, reader and judge are."""

from __future__ import annotations

from treadle.formats.format import PROGRAM_OPTIONS, Format
from treadle.formats.schedule_source import source_of
from treadle.formats.verdict import Check

FORMATS = (
    Format(
        name="msccl-xml",
        title="MSCCL XML",
        extension=".xml",
        begins=r"<algo(\s|>|/|$)",
        check=Check.EXECUTED,
        options=PROGRAM_OPTIONS
        | {"profile", "consolidate", "chunks", "accept_any_root", "protocol"}
        | {"min_size_bytes", "max_size_bytes"},
        write="treadle.formats.msccl.writer:write",
        read="treadle.formats.msccl.reader:read",
        judge="treadle.formats.msccl.interpreter:interpret",
        load="treadle.formats.msccl.loading:load",
        deliver="treadle.formats.msccl.delivery:deliver",
        judge_set="treadle.formats.msccl.file_selection:check_selection",
        parses_folder=True,
        files="one XML",
        readers="msccl-executor-nccl (`--profile azure`), msccl (`legacy`), RCCL, until removed (`rccl`)",
        collectives="all six",
        sizes="element counts that the chunks divide",
    ),
)

SCHEDULES = (source_of(FORMATS[0], "treadle.formats.msccl.traffic:traffic"),)
