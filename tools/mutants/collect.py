"""Plugin of pytest: notes for each test how long it took and which blocks it ran; see `blocks`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from .blocks import COUNTER

FOLDER = "MUTANT_HITS"
"""Environment variable that names the folder for the notes."""


def _seconds() -> float:
    """CPU time of this process and of those that it started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


_unfit: set[str] = set()
"""Tests that did not pass: what they would say of a fault means nothing."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember who failed or was skipped."""
    if not report.passed:
        _unfit.add(report.nodeid)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Run a test, and write a line about it."""
    take = import_module(COUNTER).take

    folder = Path(os.environ[FOLDER])
    take()
    started = _seconds()
    try:
        return (yield)
    finally:
        found = set(take())
        for path in folder.glob("child-*"):  # of processes that this or a test beside it started
            found.update(map(int, path.read_text(encoding="utf-8").split()))
            path.unlink(missing_ok=True)
        if item.nodeid in _unfit:
            found = set()
        note = {"test": item.nodeid, "seconds": round(_seconds() - started, 3), "blocks": sorted(found)}
        note["passed"] = item.nodeid not in _unfit
        with (folder / f"notes-{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(note) + "\n")
