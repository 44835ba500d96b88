"""One process that checks cases: rounds of random ones from a seed, or one example again.

Started by `supervisor`, to which it talks by files in a folder of its own: ``current.json`` has the case that
is being checked, ``notes.jsonl`` what was found and done, and a signal makes it write ``stacks.txt``.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import signal
from collections.abc import Callable, Collection
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from time import process_time
from typing import IO, Any

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis.database import DirectoryBasedExampleDatabase

import treadle

from .examples import read_example
from .finding import Case, Finding
from .judge import judge
from .limits import cpu_seconds
from .targets import TARGETS, Target

SHRINKING_S = 20.0
"""CPU seconds to make a case smaller that shows a fault."""

Signature = tuple[str, str, str]


class _Enough(BaseException):
    """Ends a round; no Exception, so that Hypothesis lets it pass."""


class _ShownError(Exception):
    """Tells Hypothesis that a case shows the fault that is being shrunk."""


def explore(
    target: Target,
    *,
    seed: int,
    known: Collection[Signature],
    begin: Callable[[Case], None],
    note: Callable[[Finding], None],
    database: Path | None = None,
) -> int:
    """Check random cases of a target until there is something new, and then make that case small.

    Parameters
    ----------
    target : Target
    seed : int
        Cases are the same for the same seed, but for those that a database adds.
    known : collection of signatures
        Findings that are passed over.
    begin, note : callable
        Called with every case before it is checked, and with every finding that is not known.
    database : Path, optional
        Folder of what earlier searches found interesting.

    Returns
    -------
    int
        How many cases were checked.
    """
    checked, shrunk, started = 0, None, 0.0

    @seeded(seed)
    @settings(
        database=None if database is None else DirectoryBasedExampleDatabase(database / target.name),
        max_examples=target.n_cases,
        deadline=None,
        derandomize=False,
        phases=(Phase.reuse, Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        report_multiple_bugs=False,
    )
    @given(target.cases)
    def check(case: Case) -> None:
        nonlocal checked, shrunk, started
        if shrunk is not None and process_time() - started > SHRINKING_S:
            raise _Enough
        begin(case)
        checked += 1
        found = judge(target.name, case)
        if found is None or found.signature in known:
            return
        note(found)
        if shrunk is None:
            shrunk, started = found.signature, process_time()
        if found.signature == shrunk:
            raise _ShownError

    with suppress(_Enough, _ShownError):
        check()
    return checked


def seed_of_round(seed: str, number: int) -> int:
    """Where a round's cases come from."""
    return int.from_bytes(sha256(f"{seed} {number}".encode()).digest()[:8])


class _Report:
    """The worker's side of its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes: IO[str] = (folder / "notes.jsonl").open("a", encoding="utf-8")
        self.stacks: IO[str] = (folder / "stacks.txt").open("w", encoding="utf-8")
        faulthandler.register(signal.SIGUSR1, file=self.stacks)

    def begin(self, target: str, case: Case) -> None:
        value = {"cpu_s": cpu_seconds(os.getpid()), "target": target, "case": case}
        draft = self.folder / "draft.json"
        draft.write_text(json.dumps(value), encoding="utf-8")
        draft.replace(self.folder / "current.json")

    def note(self, value: dict[str, Any]) -> None:
        self.notes.write(json.dumps(value) + "\n")
        self.notes.flush()


def main() -> None:
    """Work until ended, or through one example."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--repeat", type=Path)
    parser.add_argument("--seed", default="")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--targets", default="")
    parser.add_argument("--known", type=Path)
    parser.add_argument("--database", type=Path)
    asked = parser.parse_args()
    report = _Report(asked.folder)
    report.note({"package": treadle.__file__})
    if asked.repeat is not None:
        finding = read_example(asked.repeat).finding
        report.begin(finding.target, finding.case)
        found = judge(finding.target, finding.case)
        report.note({"repeated": None if found is None else found.to_json()})
        return
    known = set() if asked.known is None else set(map(tuple, json.loads(asked.known.read_text())))
    names, number = asked.targets.split(","), asked.first
    while True:
        known |= _round(TARGETS[names[number % len(names)]], number, known, report, asked)
        number += asked.stride


def _round(
    target: Target, number: int, known: set[Signature], report: _Report, asked: argparse.Namespace
) -> set[Signature]:
    """One round; what it found."""
    started, found = process_time(), set()

    def note(finding: Finding) -> None:
        report.note({"finding": finding.to_json()})
        found.add(finding.signature)

    checked = explore(
        target,
        seed=seed_of_round(asked.seed, number),
        known=known,
        begin=lambda case: report.begin(target.name, case),
        note=note,
        database=asked.database,
    )
    seconds = process_time() - started
    report.note({"round": number, "target": target.name, "cases": checked, "seconds": seconds})
    return found


if __name__ == "__main__":
    main()
