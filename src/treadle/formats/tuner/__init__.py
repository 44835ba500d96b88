"""NCCL tuner tables: what their writer, reader and judge are."""

from __future__ import annotations

from treadle.formats.format import Format
from treadle.formats.verdict import Check

FORMATS = (
    Format(
        name="nccl-tuner",
        title="NCCL tuner tables",
        extension=".csv",
        begins=r"(#[^\n]*\n)*#[^\n]*collective_type,min_bytes,max_bytes",
        check=Check.COMPARED,
        options=frozenset({"channels", "protocol", "min_size_bytes", "max_size_bytes"}),
        write="treadle.formats.tuner.writer:write",
        read="treadle.formats.tuner.reader:read",
        judge="treadle.formats.tuner.interpreter:interpret",
        load="treadle.formats.tuner.loading:load",
        holds_ranges=True,
        files="one CSV",
        readers="NCCL with its example tuner plugin",
        collectives="all but all-to-all, where NCCL's own ring, tree or NVLS is the plan's",
        sizes="all",
    ),
)
