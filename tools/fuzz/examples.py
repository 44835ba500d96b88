"""Findings kept as files: one JSON object each, of which the ordinary tests repeat every one.

An example is *open* while the fault is known and not mended: the tests then want it to be found still, so
that the mark goes when the fault does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from . import ROOT
from .finding import Finding

FOLDER = ROOT / "tests" / "tools" / "fuzz_examples"
LONGEST = 40_000
"""Characters of a file that is kept in the repository; larger cases are left out of it."""


@dataclass(frozen=True)
class Example:
    """A finding, and whether it is known to be one still."""

    finding: Finding
    is_open: bool


def read_example(path: Path) -> Example:
    """An example from its file."""
    value = json.loads(path.read_text(encoding="utf-8"))
    return Example(Finding.from_json(value["finding"]), value["open"])


def read_examples(folder: Path = FOLDER) -> dict[str, Example]:
    """All examples of a folder by the name of their file."""
    return {path.stem: read_example(path) for path in sorted(folder.glob("*.json"))}


def keep_example(finding: Finding, folder: Path) -> Path:
    """Write a finding as an open example and return its file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{finding.name}.json"
    value = {"open": True, "finding": finding.to_json()}
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    return path
