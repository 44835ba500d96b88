"""MSCCL XML judged by the limits of one runtime, or of the first that has nothing to object."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from treadle.errors import FormatError
from treadle.formats.judgement import Check, Judgement, Terms, decoded
from treadle.formats.msccl.judge import Interpretation, interpret_msccl_xml
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
    first: tuple[str, Interpretation] | None = None
    refusal: FormatError | None = None
    for profile in LIMITS if terms.profile is None else (terms.profile,):
        try:
            found = interpret_msccl_xml(text, profile=profile, root=terms.root, source=source)
        except FormatError as error:
            refusal = refusal or error
            continue
        first = first or (profile, found)
        if not found.violations:
            first = profile, found
            break
    if first is None:
        assert refusal is not None
        raise refusal
    profile, seen = first
    return Judgement(
        Check.EXECUTED,
        seen.violations,
        (("message", seen.n_messages), ("step", seen.n_steps), ("thread block", text.count("<tb "))),
        seen.n_ranks,
        seen.collective,
        variant=f" ({profile})",
        n_chunks=seen.n_chunks,
        notes=tuple(_notes(text, profile, seen, source)),
    )


def _notes(text: str, profile: str, seen: Interpretation, source: str) -> Iterator[str]:
    """Yield what this runtime assumes, and why others would not load the file."""
    if seen.defaults:
        yield f"{', '.join(seen.defaults)}: defaults of {profile}, absent in the file"
    reasons: dict[str, list[str]] = defaultdict(list)
    for other in LIMITS:
        if other == profile:
            continue
        try:
            violations = parse_msccl_xml(text, other, source).violations
        except FormatError as error:
            reasons[str(error).replace(f"{source}:", "line ", 1)].append(other)
        else:
            if violations:
                reasons[violations[0]].append(other)
    for reason, others in reasons.items():
        yield f"not supported by {', '.join(others)}: {reason}"
