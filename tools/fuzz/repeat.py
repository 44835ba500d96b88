"""An example checked again in a process of its own, by this tree's package or another's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import ROOT
from .examples import keep_example
from .finding import Finding
from .supervisor import Watched, WorkerError, worker_command

__all__ = ["Repeater", "Repetition", "WorkerError", "repeat"]


@dataclass(frozen=True)
class Repetition:
    """What became of it.

    Parameters
    ----------
    found : Finding, optional
        None if nothing is wrong.
    package : str
        The file from which the package came.
    """

    found: Finding | None
    package: str


Repeater = Callable[[Finding, Path], Repetition]
"""Checks a finding again, with a folder for what it writes."""


def repeat(finding: Finding, state: Path, *, source: Path | None = None, tools: Path = ROOT) -> Repetition:
    """Check a finding's case again.

    Parameters
    ----------
    finding : Finding
    state : Path
        Folder for what the process writes.
    source : Path, optional
        Folder that has another ``treadle`` package; default the one that this process would import.
    tools : Path
        Root of the tree whose search repeats it.

    Raises
    ------
    WorkerError
        If the process does not get so far.
    """
    path = keep_example(finding, state / "examples")
    environment = dict(os.environ)
    if source is not None:
        environment["PYTHONPATH"] = str(source)
    folder = state / "repeat"
    worker = Watched(
        worker_command(folder, ["--repeat", str(path)]), folder, environment=environment, tools=tools
    )
    package = ""
    try:
        while True:
            time.sleep(0.1)
            ended = worker.process.poll() is not None
            trouble = worker.trouble()
            for note in worker.notes():
                package = note.get("package", package)
                if "repeated" in note:
                    value = note["repeated"]
                    return Repetition(None if value is None else Finding.from_json(value), package)
            if trouble is not None:
                return Repetition(trouble, package)
            if ended:
                raise WorkerError(f"a repetition of {path} ended without a word")
    finally:
        worker.end()
