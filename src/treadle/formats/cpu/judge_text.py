"""CPU XML judged as files: whole texts, and the part of one rank."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.formats.cpu.judge import interpret_cpu_xml
from treadle.formats.cpu.judge_parts import CpuPart, interpret_cpu_part, is_cpu_part, parse_cpu_part
from treadle.formats.cpu.reader import CpuText, parse_cpu_xml
from treadle.formats.judgement import Check, Judgement, Terms, decoded


def read(data: bytes, terms: Terms) -> CpuText | CpuPart:
    """A text, or a part."""
    source = terms.source or "CPU XML"
    text = decoded(data, source)
    parse = parse_cpu_part if is_cpu_part(text) else parse_cpu_xml
    return parse(text, source=source)


def judge(files: Sequence[bytes], terms: Terms) -> Judgement:
    """Execute a text; play a part alone, as if the other ranks did theirs.

    Raises
    ------
    FormatError
        If it is malformed or hostile.
    """
    source = terms.source or "CPU XML"
    text = decoded(files[0], source)
    if is_cpu_part(text):
        return _part(text, source)
    seen = interpret_cpu_xml(text, source=source)
    return Judgement(
        Check.EXECUTED,
        seen.violations,
        (("instruction", seen.n_instructions), ("rank", seen.n_ranks)),
        seen.n_ranks,
        seen.collective,
        n_chunks=seen.n_chunks,
    )


def _part(text: str, source: str) -> Judgement:
    seen = interpret_cpu_part(text, source=source)
    part = seen.part
    return Judgement(
        Check.EXECUTED,
        seen.violations,
        (("instruction", len(part.text.ranks[0].instructions)),),
        1,
        part.text.collective,
        detail=f", rank {part.rank} alone",
        variant=f", part of rank {part.rank} of {part.n_ranks}",
        n_chunks=part.text.n_chunks,
        is_part=True,
    )
