"""Faults that no test notices but mypy does, which the tests' command runs as well."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from dataclasses import replace

from .tree import Tree
from .trial import Fate, Outcome


def left_to_types(tree: Tree, outcome: Outcome) -> Outcome:
    """What became of a fault that tests have left, once the types are looked at; others are as they were.

    Parameters
    ----------
    tree : Tree
        Without the fault, as it is afterwards.
    outcome : Outcome
    """
    mutant = outcome.mutant
    if outcome.fate not in (Fate.SURVIVED, Fate.UNTESTED):
        return outcome
    source = tree.read(mutant.path)
    tree.write(mutant.path, mutant.applied(source))
    try:
        complaint = _complaint(tree, mutant.path)
    finally:
        tree.write(mutant.path, source)
    # where the sound file does not pass, the complaint need not be about the fault
    noticed = complaint and not _complaint(tree, mutant.path)
    return replace(outcome, fate=Fate.KILLED, word=f"mypy: {complaint}") if noticed else outcome


def _complaint(tree: Tree, path: str) -> str:
    """The first line of mypy about a file; empty where all is well, or mypy is not there."""
    # mypy takes a file of the same size and second for the one in its cache: the second says what is in it
    second = zlib.crc32(tree.read(path).encode())
    os.utime(tree.folder / path, (second, second))
    cache = tree.folder.with_name(f"types-{tree.folder.name}")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(cache), path],
        cwd=tree.folder,
        env=dict(tree.environment()),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.partition("\n")[0] if done.returncode == 1 else ""
