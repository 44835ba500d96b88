"""Texts for runtimes judged by the judges of their formats, whoever wrote them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from treadle.errors import FormatError
from treadle.formats.format import Format, format_name
from treadle.formats.schedule_source import ScheduleSource, source_name
from treadle.formats.verdict import Check, Terms
from treadle.input_files import read_head, read_input_string

MAX_TEXT = 256 * 2**20
"""Largest text that is read; judges have limits of their own below it."""
_HEAD = 2**16


@dataclass(frozen=True)
class FileVerification:
    """What judging a text showed.

    Parameters
    ----------
    format : str
        As `treadle lower --to` names it; MSCCL XML with the profile whose limits were applied.
    check : Check
        What was done with it.
    collective : str
        Empty for NCCL graphs, which serve several.
    n_ranks : int
    counts : tuple of (str, int)
        What the text consists of: nouns and how many.
    violations : tuple of str
    is_part : bool
        It holds one rank of several, which was judged alone.
    notes : tuple of str
        Limits of the result: values that a runtime assumes, runtimes that do not load the text.
    """

    format: str
    check: Check
    collective: str
    n_ranks: int
    counts: tuple[tuple[str, int], ...]
    violations: tuple[str, ...]
    is_part: bool = False
    notes: tuple[str, ...] = ()

    @property
    def is_ok(self) -> bool:
        """No violation anywhere."""
        return not self.violations


def report_name(path: Path) -> str:
    """The name of the format that a file begins as; "" for any other file, a fabric or a plan."""
    told = _told(read_head(path, _HEAD).decode("utf-8", "replace"))
    return "" if told is None else told.name


def read_runtime_file(path: Path) -> str | None:
    """The content of a file that begins as one of the formats does; None for any other file.

    Raises
    ------
    FormatError
        If it begins so, and is too large or no UTF-8.
    """
    return read_input_string(path, MAX_TEXT) if report_name(path) else None


def _told(head: str) -> Format | ScheduleSource | None:
    """What a text begins as: a format that is written too, or one that is only read."""
    return format_name(head) or source_name(head)


def verify_runtime_file(
    text: str, *, source: str = "text", profile: str | None = None, root: int = 0
) -> FileVerification:
    """Parse a text and, where it is a program, execute it on integer contributions.

    Parameters
    ----------
    text : str
    source : str
        Name for messages.
    profile : Profile or str, optional
        Of MSCCL XML; default the first whose limits and spellings hold, else azure.
    root : int
        Of broadcast and reduce, where the format does not name it.

    Raises
    ------
    FormatError
        If the file is malformed, hostile or of no known format.
    """
    record = _told(text[:_HEAD])
    if record is None:
        raise FormatError("neither a plan nor a text of a known format", source=source)
    terms = Terms(source=source, profile=None if profile is None else str(profile), root=root)
    found = record.interpreted([text.encode("utf-8", "surrogatepass")], terms)
    chunks = () if found.n_chunks is None else (("chunk", found.n_chunks),)
    return FileVerification(
        record.name + found.variant,
        found.check,
        found.collective,
        found.n_ranks,
        # the line that lists them begins with the ranks, and a text is one file
        (*(count for count in found.counts if count[0] not in ("rank", "file")), *chunks),
        found.violations,
        found.is_part,
        found.notes,
    )
