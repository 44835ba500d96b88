"""The cache of designs: plans and values by the hash of what they depend on.

Plans are verified again whenever they are loaded. Files used least recently go when the cache is too large.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

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
    """Return ``$TREADLE_CACHE_DIR``, or ``treadle/plans`` in the user's cache directory; None if unknown."""
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
    """Return a plan from the cache or from `make`, and whether it was cached and its claims hold.

    `question` has everything that the plan depends on but the version of Treadle; without a directory
    nothing is read or stored.
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
    """Return the name of a file of this version of Treadle."""
    lines = [f"treadle {__version__}", *(f"{key}={question[key]}" for key in sorted(question))]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _trusted(path: Path, question: Mapping[str, str]) -> Plan | None:
    """Return the plan of a file, if it exists, is about the given fabric, and its claims hold."""
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


def read_value(path: Path, most_bytes: int) -> dict[str, Any]:
    """Return what `store_value` wrote; nothing if there is no such file, or it is damaged or too large."""
    try:
        if path.is_file() and path.stat().st_size <= most_bytes:
            value = json.loads(path.read_bytes())
            if isinstance(value, dict):
                os.utime(path)
                return value
    except (OSError, ValueError, RecursionError):
        pass
    return {}


def store_value(path: Path, value: Mapping[str, object]) -> None:
    """Write a value as JSON next to the plans; a failure is ignored."""
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
