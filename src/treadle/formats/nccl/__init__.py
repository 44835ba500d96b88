"""NCCL graphs: what their writer, reader and judge are."""

from __future__ import annotations

from treadle.formats.format import Format
from treadle.formats.schedule_source import source_of
from treadle.formats.verdict import Check

FORMATS = (
    Format(
        name="nccl-graph",
        title="NCCL graphs",
        extension=".xml",
        begins="<graphs",
        check=Check.COMPARED,
        options=frozenset(),
        write="treadle.formats.nccl.writer:write",
        read="treadle.formats.nccl.reader:read",
        judge="treadle.formats.nccl.interpreter:interpret",
        load="treadle.formats.nccl.loading:load",
        files="one XML, or one a box",
        readers="NCCL",
        collectives="ring plans of allgather, reduce-scatter, allreduce",
        sizes="all",
    ),
)

SCHEDULES = (source_of(FORMATS[0], "treadle.formats.nccl.traffic:rings"),)
