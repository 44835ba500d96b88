"""Files that users name: regular files and pipes, read up to a limit.

A device may never end, and a pipe can be read only once although several readers look at the start
of a file to find out what it is. All input files are therefore opened here, and what came out of a pipe
is kept.
"""

from __future__ import annotations

import io
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from treadle.errors import FormatError

MAX_PIPE_BYTES = 2**28
"""Most bytes that are read from a pipe: as many as of the largest text file, a topology of Treadle's own."""

_MAX_DIGITS = 30
_LONG_NUMBER = re.compile(rf"[0-9]{{{_MAX_DIGITS}}}")
_ZIP = b"PK\x03\x04"
_PIPES: dict[tuple[int, int], bytes] = {}
"""Content of each pipe by device and inode: what a process has read from it once."""


def is_file(path: Path | str) -> bool:
    """Whether `path` names a regular file or a pipe; false also for names that no file can have."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) or stat.S_ISFIFO(mode)


def exists(path: Path | str) -> bool:
    """Whether there is a file or folder; false also for names that no file can have."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # too long, or with a null byte
        return False


def open_input(path: Path | str) -> BinaryIO:
    """Open a regular file or a pipe, at its start and seekable.

    Raises
    ------
    FormatError
        If there is no such file, or it is a folder, a device or a socket, or a pipe gives too much.
    """
    source = str(path)
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISREG(mode):
            return open(path, "rb")
        if stat.S_ISFIFO(mode):
            return io.BytesIO(_pipe_content(path))
    except (OSError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        reason = getattr(error, "strerror", None) or "not a file name"
        raise FormatError(f"cannot be read: {reason}", source=source) from None
    kind = "a folder" if stat.S_ISDIR(mode) else "a device or a socket"
    raise FormatError(f"cannot be read: this is {kind}, not a file or pipe", source=source)


def _pipe_content(path: Path | str) -> bytes:
    status = os.stat(path)
    key = (status.st_dev, status.st_ino)
    if key in _PIPES:
        return _PIPES[key]
    with open(path, "rb") as file:
        data = file.read(MAX_PIPE_BYTES + 1)
    if len(data) > MAX_PIPE_BYTES:
        raise FormatError(
            f"has more than {MAX_PIPE_BYTES} bytes, the most that is read from a pipe", source=str(path)
        )
    return _PIPES.setdefault(key, data)


def read_head(path: Path | str, count: int) -> bytes:
    """Return the first `count` bytes of a file or pipe; nothing if there is none."""
    if not is_file(path):
        return b""
    with open_input(path) as file:
        return file.read(count)


def is_plan_file(path: Path | str) -> bool:
    """Whether a file begins as plans do: they are zip archives, all other inputs are text."""
    return read_head(path, len(_ZIP)) == _ZIP


def read_bytes(path: Path | str, most_bytes: int) -> bytes:
    """Return the content of a file or pipe of at most `most_bytes` bytes; FormatError otherwise."""
    source = str(path)
    with open_input(path) as file:
        try:
            data = file.read(most_bytes + 1)
        except OSError as error:
            raise FormatError(f"cannot be read: {error.strerror}", source=source) from None
    if len(data) > most_bytes:
        raise FormatError(f"is larger than {most_bytes} bytes, the most that is read", source=source)
    return data


def read_input_string(path: Path | str, most_bytes: int, *, expected: str = "") -> str:
    """Return the content of a text file of at most `most_bytes` bytes, without a byte-order mark.

    Parameters
    ----------
    path : Path or str
    most_bytes : int
        Most bytes that are read into memory.
    expected : str
        What the file should hold, for the message about binary data.

    Raises
    ------
    FormatError
        If the file cannot be read, is larger, or is not UTF-8 (with line and column); one line.
    """
    source = str(path)
    data = read_bytes(path, most_bytes)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        message = f"byte 0x{data[error.start]:02x} is not valid UTF-8{expected and f'; expected {expected}'}"
        raise FormatError(message, source=source, line=line, column=column) from None


def parse_json(text: str, *, source: str = "") -> Any:
    """Strict JSON: no repeated keys, no NaN or infinity, no endless integers, bounded nesting.

    Parameters
    ----------
    text : str
    source : str, optional
        File name for messages.

    Raises
    ------
    FormatError
        With line and column where they are known.
    """

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) == len(items):
            return found
        seen: set[str] = set()
        twice = next(key for key, _ in items if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise FormatError(f"key {json.dumps(twice[:60])} appears twice in one object", source=source)

    def constant(name: str) -> Any:
        raise FormatError(f"{name} is not a JSON number", source=source)

    def integer(digits: str) -> int:
        if len(digits) > _MAX_DIGITS:
            raise FormatError(f"an integer of {len(digits)} digits is too large", source=source)
        return int(digits)

    try:
        # a hook for every integer takes its time; it is needed only where some run of digits is long
        parse_int = integer if _LONG_NUMBER.search(text) else None
        return json.loads(text, object_pairs_hook=pairs, parse_constant=constant, parse_int=parse_int)
    except json.JSONDecodeError as error:
        message = f"malformed JSON: {error.msg}"
        raise FormatError(message, source=source, line=error.lineno, column=error.colno) from None
    except RecursionError:
        raise FormatError("malformed JSON: nested too deeply", source=source) from None


@contextmanager
def naming_file(path: Path | str) -> Iterator[None]:
    """Within it FormatErrors name the file that they are about, once."""
    source = str(path)
    try:
        yield
    except FormatError as error:
        raise (error if str(error).startswith(source) else FormatError(str(error), source=source)) from None
