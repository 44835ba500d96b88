"""CPU XML: the record of the format."""

from __future__ import annotations

from treadle.formats.format import PROGRAM_OPTIONS, Format
from treadle.formats.verdict import Check

FORMATS = (
    Format(
        name="cpu-xml",
        title="CPU XML",
        extension=".xml",
        begins="<cpu",
        check=Check.EXECUTED,
        options=PROGRAM_OPTIONS | {"rank"},
        write="treadle.formats.cpu.writer:write",
        read="treadle.formats.cpu.reader:read",
        judge="treadle.formats.cpu.interpreter:interpret",
        load="treadle.formats.cpu.loading:load",
        files="one XML",
        readers="interpreters over MPI or UCX; `treadle.runtime.mpi_run`, `libfabric_run`",
        collectives="all six",
        sizes="all",
    ),
)
