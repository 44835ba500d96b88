"""The parts of a CPU XML, a rank each, put together and executed as one text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from treadle.errors import FormatError
from treadle.formats.cpu.interpreter import CpuInterpretation, execute_cpu_file
from treadle.formats.cpu.reader import parse_cpu_part


def interpret_cpu_parts(texts: Sequence[str], *, source: str = "CPU XML") -> CpuInterpretation:
    """Put the parts of all ranks together and execute them as one text.

    Raises
    ------
    FormatError
        If a part is malformed or hostile, or they are not the parts of one text.
    """
    parts = [parse_cpu_part(text, source=f"{source}, part {place}") for place, text in enumerate(texts)]
    for rank, part in enumerate(parts):
        if (part.rank, part.n_ranks) != (rank, len(parts)):
            raise FormatError(
                f"part {rank} is of rank {part.rank} of {part.n_ranks}, expected {rank} of {len(parts)}",
                source=source,
            )
        if replace(part.text, ranks=()) != replace(parts[0].text, ranks=()):
            raise FormatError(f"part {rank} is of another text than part 0", source=source)
    if not parts:
        raise FormatError("there is no part", source=source)
    return execute_cpu_file(replace(parts[0].text, ranks=tuple(part.text.ranks[0] for part in parts)))
