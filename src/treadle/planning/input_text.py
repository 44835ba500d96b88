"""Small text files that users hand over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from treadle.errors import FormatError


def read_input_text(path: Path | str, most_bytes: int, *, expected: str = "") -> str:
    """The content of a file of at most so many bytes; a byte-order mark is left out.

    Parameters
    ----------
    path : Path or str
    most_bytes : int
        No more than this is read into memory.
    expected : str
        What the file should hold, for the message about one that is no text.

    Raises
    ------
    FormatError
        If the file cannot be read, is larger, or is not UTF-8; one line.
    """
    source = str(path)
    try:
        with open(path, "rb") as file:
            data = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a file name"
        raise FormatError(f"cannot be read: {reason}", source=source) from None
    if len(data) > most_bytes:
        raise FormatError(f"is larger than {most_bytes} bytes, the most that is read", source=source)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FormatError(f"is not UTF-8{expected and f'; expected {expected}'}", source=source) from None


@contextmanager
def naming_file(path: Path | str) -> Iterator[None]:
    """Within it FormatErrors name the file that they are about, once."""
    source = str(path)
    try:
        yield
    except FormatError as error:
        raise (error if str(error).startswith(source) else FormatError(str(error), source=source)) from None
