"""A log as lines: read one by one, freed of colours and of the prefixes that launchers put before them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from treadle.errors import FormatError
from treadle.input_files import open_input

MAX_LOG_BYTES = 256 * 2**20
"""Most that is read of a log."""
MAX_LINE_BYTES = 2**13
"""Most that is looked at of one line; the rest is passed over."""
_SHOWN = 200

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
# host:pid:thread [device] NCCL INFO text; warnings name a file first, old versions no thread
_NCCL = re.compile(
    r"(?P<host>[\w.\-]{1,255}):(?P<process>\d{1,10}(?::\d{1,10})?) \[(?P<device>-?\d{1,6})\]"
    r"(?:[^\[\]]{0,200}?) NCCL (?P<level>INFO|WARN|TRACE) ?"
)
_FURTHEST = 500
"""Largest distance from the host's name to NCCL's."""
# what mpirun --tag-output, srun --label and the like put before each line
_PREFIX = re.compile(
    r"^(?:\[\d+,\d+\](?:<std(?:out|err|diag)>)?:?\s?|<std(?:out|err)>:?\s?|\[\d+\]:? ?|\d+:\s)"
)


@dataclass(frozen=True)
class LogLine:
    """A line that proves something.

    Parameters
    ----------
    number : int
        From 1.
    text : str
        As in the log, without colours and control characters, at most 200 characters.
    """

    number: int
    text: str


@dataclass(frozen=True)
class LogMessage:
    """A line and what is known of it.

    Parameters
    ----------
    number : int
        From 1.
    raw : str
        The whole line without colours and control characters.
    text : str
        What the program wrote: without the launcher's prefix, and of NCCL's lines without NCCL's.
    host, process : str
        Of NCCL's lines: who wrote it; else "".
    device : int
        Of NCCL's lines: the GPU's number on its host; else -1.
    level : str
        INFO, WARN or TRACE; "" for lines that are not NCCL's.
    """

    number: int
    raw: str
    text: str
    host: str = ""
    process: str = ""
    device: int = -1
    level: str = ""

    @property
    def line(self) -> LogLine:
        """The line as evidence."""
        return LogLine(self.number, format_line(self.raw))


def format_line(text: str) -> str:
    """Format a line for reports."""
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def messages(path: Path | str) -> Iterator[LogMessage]:
    """Yield the lines of a log, in constant memory.

    Parameters
    ----------
    path : Path or str
        A file or a pipe of any text; bytes that are not UTF-8 are replaced.

    Raises
    ------
    FormatError
        If it cannot be read, or has more than 256 MiB; one line.
    """
    source = str(path)
    with open_input(path) as file:
        for number, data in _raw_lines(file, source):
            yield message(number, data.decode("utf-8", "replace"))


def _raw_lines(file: BinaryIO, source: str) -> Iterator[tuple[int, bytes]]:
    """Yield numbered lines, each cut to `MAX_LINE_BYTES`."""
    total, number, is_inside = 0, 0, False
    while data := file.readline(MAX_LINE_BYTES):
        total += len(data)
        if total > MAX_LOG_BYTES:
            most = MAX_LOG_BYTES // 2**20
            raise FormatError(
                f"is larger than {most} MiB, the most that is read; keep the lines of one rank per host",
                source=source,
            )
        if not is_inside:
            number += 1
            yield number, data
        is_inside = not data.endswith(b"\n")


def message(number: int, raw: str) -> LogMessage:
    """Parse a line.

    Examples
    --------
    >>> found = message(1, "[1,0]<stdout>:node1:17:23 [0] NCCL INFO Using network IB")
    >>> found.host, found.device, found.level, found.text
    ('node1', 0, 'INFO', 'Using network IB')
    """
    if "\x1b" in raw:
        raw = _ESCAPES.sub("", raw)
    raw = raw.rstrip("\r\n")
    if "\r" in raw:  # a progress bar, overwritten by what follows
        raw = raw.rpartition("\r")[2] or raw
    raw = _CONTROLS.sub("", raw)
    name = raw.find(" NCCL ")
    if name >= 0:
        match = _NCCL.search(raw, max(0, name - _FURTHEST), name + 12)
        if match is not None:
            return LogMessage(
                number,
                raw,
                raw[match.end() :].rstrip(),
                match["host"],
                f"{match['host']}:{match['process']}",
                int(match["device"]),
                match["level"],
            )
    text = raw
    while (prefix := _PREFIX.match(text)) is not None:
        text = text[prefix.end() :]
    return LogMessage(number, raw, text.rstrip())
