"""The CPythons of this machine, one of each minor version that a release is for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

MINORS = (11, 12, 13, 14)
"""Of CPython 3: those that a release is tested on where they are."""
OWN_WHEEL_MINOR = 11
"""nanobind's stable ABI begins at 3.12; before that a wheel is for one version."""

_QUESTION = """
import json, platform, sys, sysconfig
print(json.dumps([platform.python_implementation(), *sys.version_info[:3], sys.executable,
                  bool(sysconfig.get_config_var("Py_GIL_DISABLED"))]))
"""


@dataclass(frozen=True, order=True)
class Interpreter:
    """A CPython: its version, and the path of its executable."""

    minor: int
    patch: int
    path: str

    @property
    def name(self) -> str:
        """As in 3.12.1."""
        return f"3.{self.minor}.{self.patch}"


def candidates(environment: dict[str, str]) -> Iterator[str]:
    """Paths at which a CPython may be: on PATH by its name, then pyenv's."""
    for minor in MINORS:
        found = shutil.which(f"python3.{minor}", path=environment.get("PATH"))
        if found:
            yield found
    root = Path(environment.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, sorted(root.glob("versions/3.*/bin/python")))


def asked(path: str) -> Interpreter | None:
    """What is at that path; None where it does not start, is no CPython, or has no global lock."""
    try:
        done = subprocess.run(
            [path, "-I", "-c", _QUESTION], capture_output=True, text=True, check=True, timeout=60
        )
        implementation, major, minor, patch, executable, without_lock = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None  # also pyenv's shim of a version that is not switched on
    if implementation != "CPython" or major != 3 or without_lock:
        return None
    return Interpreter(minor, patch, executable)


def newest_of_each(found: Iterable[Interpreter | None]) -> dict[int, Interpreter]:
    """By minor version, in order: the one with the highest patch level, of several the first by its path.

    Examples
    --------
    >>> newest_of_each([Interpreter(12, 1, "/a"), None, Interpreter(12, 4, "/b"), Interpreter(10, 9, "/c")])
    {12: Interpreter(minor=12, patch=4, path='/b')}
    """
    best: dict[int, Interpreter] = {}
    for one in sorted(filter(None, found), key=lambda one: (one.minor, -one.patch, one.path)):
        if one.minor in MINORS:
            best.setdefault(one.minor, one)
    return best


def interpreters() -> dict[int, Interpreter]:
    """Those of this machine, by minor version."""
    return newest_of_each(map(asked, candidates(dict(os.environ))))


def builders(found: dict[int, Interpreter]) -> tuple[Interpreter, Interpreter]:
    """The one for the wheel of 3.11, and the oldest of the others for the wheel of the stable ABI.

    Raises
    ------
    ValueError
        If one of the two is missing.
    """
    own, later = found.get(OWN_WHEEL_MINOR), [one for minor, one in found.items() if minor > OWN_WHEEL_MINOR]
    if own is None or not later:
        wanted = "CPython 3.11" if own is None else "a CPython from 3.12 on"
        raise ValueError(f"a release needs {wanted}, on PATH or among pyenv's; found {_names(found)}")
    return own, min(later)


def _names(found: dict[int, Interpreter]) -> str:
    return ", ".join(one.name for one in found.values()) or "none"


def serves(tag: str, minor: int) -> bool:
    """Whether a wheel with that tag of Python and ABI is installed by CPython 3.minor.

    Examples
    --------
    >>> serves("cp311-cp311", 11), serves("cp311-cp311", 12), serves("cp312-abi3", 14)
    (True, False, True)
    """
    match = re.fullmatch(r"cp3(\d+)-(cp3\d+|abi3)", tag)
    if match is None:
        raise ValueError(f"{tag}: expected the tag of a wheel for CPython, as in cp312-abi3")
    return int(match[1]) <= minor if match[2] == "abi3" else int(match[1]) == minor
