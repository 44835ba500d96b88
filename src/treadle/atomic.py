"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from treadle.errors import FormatError


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write `data` to `path` so that a reader sees the old file or the new one, never a part.

    The data goes to a new file in the same folder, is flushed to the disk and then renamed. A device, pipe
    or other special file (``/dev/null``) cannot be replaced by a rename and is written directly.

    A file that is replaced keeps its permissions, and its owner and group as far as we may give them; the
    umask decides those of a new one. Other names of a file (hard links) keep the old content.

    Parameters
    ----------
    path : str or Path
        Target; a symbolic link is followed, and stays one.
    data : bytes
        The whole content.

    Raises
    ------
    FormatError
        If the file cannot be written, or is there and write-protected; the target is then as it was.
    """
    try:
        target = Path(path).resolve()
        old = _status(target)
        if old is not None and not stat.S_ISREG(old.st_mode) and not stat.S_ISDIR(old.st_mode):
            target.write_bytes(data)
            return
        _replace(target, data, old)
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FormatError(f"cannot be written: {reason}", source=str(path)) from None


def check_parent(path: str | Path) -> None:
    """FormatError if the folder that `path` would be written into is not there.

    Examples
    --------
    >>> check_parent("no/such/ring.plan")
    Traceback (most recent call last):
    treadle.errors.FormatError: no/such/ring.plan: folder no/such does not exist; create it first
    """
    folder = Path(path).parent
    try:
        is_there = folder.is_dir()
    except (OSError, ValueError):  # a name that no file can have: told when it is written
        return
    if not is_there:
        raise FormatError(f"folder {folder} does not exist; create it first", source=str(path))


@contextlib.contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """Make a folder with its parents for the files that the block writes; if that fails, remove them again.

    A folder that was there before stays, and so do its files.

    Raises
    ------
    FormatError
        If the folder cannot be made.
    """
    folder = Path(path)
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FormatError(f"cannot be made: {error.strerror}", source=str(path)) from None
    try:
        yield folder
    except BaseException:
        if missing:
            shutil.rmtree(missing[-1], ignore_errors=True)
        raise


def _status(target: Path) -> os.stat_result | None:
    """Return the status of the path; None if it does not exist."""
    try:
        return target.stat()
    except FileNotFoundError:
        return None


def _replace(target: Path, data: bytes, old: os.stat_result | None) -> None:
    """Write a hidden neighbour of `target` and rename it; the neighbour never survives a failure."""
    if old is not None and stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, "is a directory")
    if old is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "is write-protected")  # a rename alone would get past that
    partial = target.with_name(f".{target.name[:200]}.{secrets.token_hex(8)}.partial")
    # 0o666 leaves the permissions to the umask, as open() does; what replaces a private file is never public
    mode = 0o666 if old is None else 0o600
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            if old is not None:
                _keep_access(descriptor, old)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _keep_access(descriptor: int, old: os.stat_result) -> None:
    """Give a new file the owner, group and permissions of the old one.

    Where the group cannot be given, it gets no more than others had. Set-user-ID and the like are not
    kept: written files are not executed.
    """
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        for user, group in ((-1, old.st_gid), (old.st_uid, -1)):
            with contextlib.suppress(OSError):  # only root may give files away
                os.fchown(descriptor, user, group)
        new = os.fstat(descriptor)
    mode = old.st_mode & 0o777
    if new.st_gid != old.st_gid:
        mode = mode & 0o707 | (mode & 0o007) << 3
    with contextlib.suppress(OSError):  # a file system without permissions
        os.fchmod(descriptor, mode)
