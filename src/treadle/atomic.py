"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from treadle.errors import FormatError


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write `data` to `path` so that a reader sees the old file or the new one, never a part.

    The data goes to a new file in the same folder, is flushed to the disk and then renamed. A device, pipe
    or other special file (``/dev/null``) cannot be replaced by a rename and is written directly.

    Parameters
    ----------
    path : str or Path
        Target; a symbolic link is followed.
    data : bytes
        The whole content.

    Raises
    ------
    FormatError
        If the file cannot be written; the target is then as it was.
    """
    try:
        target = Path(path).resolve()
        if target.exists() and not target.is_file() and not target.is_dir():
            target.write_bytes(data)
            return
        _replace(target, data)
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FormatError(f"cannot be written: {reason}", source=str(path)) from None


def _replace(target: Path, data: bytes) -> None:
    """Write a hidden neighbour of `target` and rename it; the neighbour never survives a failure."""
    if target.is_dir():
        raise IsADirectoryError(21, "is a directory")
    partial = target.with_name(f".{target.name[:200]}.{secrets.token_hex(8)}.partial")
    # Mode 0o666 leaves the final permissions to the umask, as open() does.
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
