"""Chakra execution traces: what their writer, reader and judge are."""

from __future__ import annotations

from treadle.formats.format import PROGRAM_OPTIONS, Format
from treadle.formats.verdict import Check

FORMATS = (
    Format(
        name="chakra",
        title="Chakra execution traces",
        extension=".et",
        check=Check.EXECUTED,
        options=PROGRAM_OPTIONS | {"rank", "size_bytes"},
        write="treadle.formats.chakra.writer:write",
        read="treadle.formats.chakra.interpreter:read",
        judge="treadle.formats.chakra.interpreter:interpret",
        load="treadle.formats.chakra.loading:load",
        is_per_rank=True,
        files="one trace a rank",
        readers="simulators such as ASTRA-sim",
        collectives="all six",
        sizes="the one given by `--size`",
    ),
)
