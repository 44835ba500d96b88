"""MSCCL++ execution plans: what their writer, reader and judge are."""

from __future__ import annotations

from treadle.formats.format import PROGRAM_OPTIONS, Format
from treadle.formats.schedule_source import source_of
from treadle.formats.verdict import Check

FORMATS = (
    Format(
        name="mscclpp-json",
        title="MSCCL++ execution plans",
        extension=".json",
        begins=r'\{(?=[\s\S]*"gpus")',
        check=Check.EXECUTED,
        # its thread blocks work in parallel whatever the channels of the program
        options=PROGRAM_OPTIONS - {"channels"}
        | {"pipeline_bytes", "chunks", "accept_any_root", "min_size_bytes", "max_size_bytes", "protocol"},
        protocols=("Simple", "LL"),
        write="treadle.formats.mscclpp.writer:write",
        read="treadle.formats.mscclpp.reader:read",
        judge="treadle.formats.mscclpp.interpreter:interpret",
        load="treadle.formats.mscclpp.loading:load",
        deliver="treadle.formats.mscclpp.delivery:deliver",
        judge_set="treadle.formats.mscclpp.file_selection:check_selection",
        files="one JSON",
        readers="MSCCL++: as NCCL, or its executor alone (reduce, all-to-all)",
        collectives="all six",
        sizes="chunks of whole 16 bytes, to 4 GiB",
    ),
)

SCHEDULES = (source_of(FORMATS[0], "treadle.formats.mscclpp.traffic:traffic"),)
