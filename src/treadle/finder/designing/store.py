"""Plans kept on disk under the hash of what they answer; verified again whenever they are loaded."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from treadle._version import __version__
from treadle.atomic import write_bytes
from treadle.errors import TreadleError
from treadle.inputs.problem import resolve_topology
from treadle.inputs.verification import check_plan
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import load_plan, save_plan

MAX_BYTES = 2**30
"""Size to which the cache is cut back, least recently used files first."""

ENDINGS = (".plan", ".rate", ".graphs")


def default_directory() -> Path | None:
    """``$TREADLE_CACHE_DIR``, or ``treadle/plans`` under the user's cache directory; None without a home."""
    chosen = os.environ.get("TREADLE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "treadle" / "plans"
    except RuntimeError:  # neither $HOME nor an entry in the list of users
        return None


def cached_plan(
    question: Mapping[str, str], make: Callable[[], Plan], *, directory: Path | None
) -> tuple[Plan, bool]:
    """The kept answer to a question, or a new one, which is then kept.

    Parameters
    ----------
    question : mapping of str to str
        Everything that the answer depends on, but for the version of Treadle.
    make : callable
        Computes the plan.
    directory : Path, optional
        None: neither look nor keep.

    Returns
    -------
    Plan
    bool
        Whether it was found, and its claims proved true again.
    """
    if directory is None:
        return make(), False
    path = directory / f"{key_of(question)}.plan"
    found = _trusted(path, question)
    if found is not None:
        return found, True
    plan = make()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        save_plan(path, plan)
        prune(directory, keep=path)
    except (OSError, TreadleError):
        pass  # a cache that cannot be written only costs time
    return plan, False


def key_of(question: Mapping[str, str]) -> str:
    """The name under which an answer of this version is kept."""
    lines = [f"treadle {__version__}", *(f"{key}={question[key]}" for key in sorted(question))]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _trusted(path: Path, question: Mapping[str, str]) -> Plan | None:
    """The plan of a file, if there is one, it is about the fabric asked for, and its claims hold."""
    try:
        if not path.is_file():
            return None
        plan = load_plan(path)
        about = (plan.topology.name, plan.collective.kind.value)
        if (
            about == (question.get("topology"), question.get("collective"))
            and check_plan(plan, resolve_topology(question["topology"])).is_ok
        ):
            os.utime(path)
            return plan
    except (OSError, TreadleError):
        pass  # damaged or foreign: made anew
    return None


def store_value(path: Path, value: Mapping[str, object]) -> None:
    """Write a value as JSON beside the plans; where that cannot be, nothing happens."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, json.dumps(value).encode())
        prune(path.parent, keep=path)
    except (OSError, TreadleError):
        pass  # a cache that cannot be written only costs time


def prune(directory: Path, *, keep: Path) -> None:
    """Remove what was used least recently, plans and rates, until the rest fit."""
    kept = (path for ending in ENDINGS for path in directory.glob(f"*{ending}"))
    files = [(path.stat(), path) for path in kept if path != keep]
    total = keep.stat().st_size + sum(status.st_size for status, _ in files)
    for status, path in sorted(files, key=lambda entry: entry[0].st_mtime):
        if total <= MAX_BYTES:
            return
        path.unlink(missing_ok=True)
        total -= status.st_size
