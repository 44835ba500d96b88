"""What counts: findings that show again, and that the parent commit does not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from functools import partial
from pathlib import Path

from . import ROOT
from .finding import Finding
from .parent import NoParentError, parent_package
from .repeat import Repeater, WorkerError, repeat


class Verdict(Enum):
    """What becomes of a finding."""

    NEW = "NEW"
    OLDER = "older than this commit"
    UNSTEADY = "not shown again"


def judge_findings(
    findings: Sequence[Finding],
    state: Path,
    *,
    with_parent: bool,
    here: Repeater = repeat,
    repository: Path = ROOT,
) -> Iterator[tuple[Finding, Verdict]]:
    """Repeat findings, here and, if wanted, on the parent commit.

    Without a parent, for want of history for instance, everything that shows again is new.

    Parameters
    ----------
    findings : sequence of Finding
    state : Path
        Folder for what is written meanwhile.
    with_parent : bool
    here : callable
        Repeats a finding on this commit.
    repository : Path
        Whose parent commit it is.
    """
    there: list[Repeater] = []
    if findings and with_parent:
        try:
            package = parent_package(repository, state)
        except NoParentError as error:
            print(f"fuzz: no parent to compare with: {error}")
        else:
            # its own search may be what fits it, where this commit changes what both use
            trees = [ROOT, state / "parent"]
            there = [
                partial(repeat, source=package, tools=tree)
                for tree in trees
                if (tree / "tools/fuzz").is_dir()
            ]
    for found in findings:
        yield found, verdict_of(found, state, here, there)


def verdict_of(found: Finding, state: Path, here: Repeater, there: Sequence[Repeater]) -> Verdict:
    """What becomes of one finding.

    Parameters
    ----------
    found : Finding
    state : Path
    here : callable
        Repeats it on this commit.
    there : sequence of callable
        Ways to repeat it on the parent; none if there is no parent.
    """
    if not _shows(found, state, here):
        return Verdict.UNSTEADY
    return Verdict.OLDER if any(_shows(found, state, again) for again in there) else Verdict.NEW


def _shows(found: Finding, state: Path, again: Repeater) -> bool:
    """Whether a case is wrong in the same way."""
    try:
        seen = again(found, state).found
    except WorkerError as error:  # it does not even start: an import that fails, for instance
        print(f"fuzz: {found.name} could not be repeated: {error}")
        return False
    return seen is not None and seen.kind == found.kind
