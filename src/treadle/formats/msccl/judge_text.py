"""MSCCL XML judged by the limits of one runtime, or of the first that has nothing to object."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.errors import FormatError
from treadle.formats.judgement import Check, Judgement, Terms, decoded
from treadle.formats.msccl.judge import interpret_msccl_xml
from treadle.formats.msccl.reader import LIMITS, Algorithm, parse_msccl_xml


def read(data: bytes, terms: Terms) -> Algorithm:
    """A text as a runtime reads it, by default msccl-executor-nccl."""
    source = terms.source or "MSCCL XML"
    return parse_msccl_xml(decoded(data, source), terms.profile or "azure", source)


def judge(files: Sequence[bytes], terms: Terms) -> Judgement:
    """Execute a text as the first runtime that has nothing to object; else as the first that reads it at all.

    Raises
    ------
    FormatError
        If no runtime reads it.
    """
    source = terms.source or "MSCCL XML"
    text = decoded(files[0], source)
    first: Judgement | None = None
    refusal: FormatError | None = None
    for profile in LIMITS if terms.profile is None else (terms.profile,):
        try:
            found = _executed(text, profile, terms.root, source)
        except FormatError as error:
            refusal = refusal or error
            continue
        if not found.violations:
            return found
        first = first or found
    if first is None:
        assert refusal is not None
        raise refusal
    return first


def _executed(text: str, profile: str, root: int, source: str) -> Judgement:
    seen = interpret_msccl_xml(text, profile=profile, root=root, source=source)
    return Judgement(
        Check.EXECUTED,
        seen.violations,
        (("message", seen.n_messages), ("step", seen.n_steps), ("thread block", text.count("<tb "))),
        seen.n_ranks,
        seen.collective,
        variant=f" ({profile})",
        n_chunks=seen.n_chunks,
    )
