"""Verification of runtime files by the interpreters of their formats; any tool may have written them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from treadle.errors import FormatError
from treadle.formats.format import Format, format_name
from treadle.formats.schedule_source import ScheduleSource, source_name
from treadle.formats.verdict import Check, Terms
from treadle.input_files import read_head, read_input_string

MAX_TEXT = 256 * 2**20
"""Largest file that is read; interpreters have smaller limits of their own."""
_HEAD = 2**16


@dataclass(frozen=True)
class FileVerification:
    """Result of the verification of a runtime file.

    Parameters
    ----------
    format : str
        As `treadle lower --to` names it; MSCCL XML with the profile whose limits were applied.
    check : Check
        Check that was made.
    collective : str
        Empty for NCCL graphs, which support several.
    n_ranks : int
    counts : tuple of (str, int)
        Parts of the file: nouns and their numbers.
    violations : tuple of str
    is_part : bool
        Whether the file has one rank of several, which was checked alone.
    notes : tuple of str
        Limits of the result: values that a runtime assumes, runtimes that do not load the file.
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
        """Whether no violation was found."""
        return not self.violations


def report_name(path: Path) -> str:
    """Return the name of the format of a runtime file; "" for any other file, e.g. a fabric or a plan."""
    record = _recognise(read_head(path, _HEAD).decode("utf-8", "replace"))
    return "" if record is None else record.name


def read_runtime_file(path: Path) -> str | None:
    """Return the content of a runtime file; None for any other file.

    FormatError if it is too large or not UTF-8.
    """
    return read_input_string(path, MAX_TEXT) if report_name(path) else None


def _recognise(head: str) -> Format | ScheduleSource | None:
    """Return the format of a runtime file: one that can be written as well, or one that can only be read."""
    return format_name(head) or source_name(head)


def verify_runtime_file(
    text: str, *, source: str = "text", profile: str | None = None, root: int = 0
) -> FileVerification:
    """Parse a runtime file and, if it is a program, execute it on integer contributions.

    Parameters
    ----------
    text : str
    source : str
        Name for messages.
    profile : Profile or str, optional
        For MSCCL XML; default: the first whose limits and spellings hold, or else azure.
    root : int
        Root of broadcast and reduce, if the format does not have it.

    Raises
    ------
    FormatError
        If the file is malformed, hostile or not of a known format.
    """
    record = _recognise(text[:_HEAD])
    if record is None:
        raise FormatError("neither a plan nor a runtime file of a known format", source=source)
    terms = Terms(source=source, profile=None if profile is None else str(profile), root=root)
    found = record.interpreted([text.encode("utf-8", "surrogatepass")], terms)
    chunks = () if found.n_chunks is None else (("chunk", found.n_chunks),)
    return FileVerification(
        record.name + found.variant,
        found.check,
        found.collective,
        found.n_ranks,
        # the line that lists them begins with the ranks, and the input is one file
        (*(count for count in found.counts if count[0] not in ("rank", "file")), *chunks),
        found.violations,
        found.is_part,
        found.notes,
    )
