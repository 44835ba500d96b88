"""Tests write nothing outside temporary folders: an audit hook that refuses what would.

It sees this process only; processes that tests start get a home and caches of their own, see `conftest`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {
    "os.chmod": (0,),
    "os.chown": (0,),
    "os.link": (1,),
    "os.mkdir": (0,),
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.rmdir": (0,),
    "os.symlink": (1,),
    "os.truncate": (0,),
    "os.utime": (0,),
}
"""Events of the interpreter that change files, and which of their arguments are paths of these."""

_OWN_NAMES = {"__pycache__", ".pytest_cache", ".hypothesis"}
"""Folders of the interpreter and of the tools, wherever they lie."""

_KERNEL = ("/dev", "/proc", "/sys", "/run")
"""Devices, and what the kernel shows as files."""


class WriteGuard:
    """Raises AssertionError where a test writes outside temporary folders.

    Attributes
    ----------
    is_on : bool
        Only while a test runs: pytest itself writes reports where its user wants them.
    """

    def __init__(self) -> None:
        self.is_on = False
        self._allowed = [Path(os.path.realpath(path)) for path in (tempfile.gettempdir(), *_KERNEL)]

    def install(self) -> None:
        """Watch this process to its end: audit hooks cannot be taken away."""
        sys.addaudithook(self._audit)

    def is_own(self, path: str) -> bool:
        """Whether tests may write there."""
        real = Path(os.path.realpath(path))
        return bool(_OWN_NAMES & set(real.parts)) or any(real.is_relative_to(top) for top in self._allowed)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_on:
            return
        if event == "open":
            path, _, flags = arguments
            paths = (path,) if isinstance(flags, int) and flags & _WRITING else ()
        elif event in _CHANGES:
            if event != "os.truncate" and arguments[-1] != -1:
                return  # relative to an open folder, as shutil.rmtree goes
            paths = tuple(arguments[place] for place in _CHANGES[event])
        else:
            return
        for path in paths:
            # descriptors were opened under this very watch
            if isinstance(path, str | bytes | os.PathLike):
                name = os.fsdecode(path)
                if "\0" not in name and not self.is_own(name):
                    raise AssertionError(f"a test writes outside its folder: {event} {name[:200]!r}")
