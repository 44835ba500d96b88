"""Says while the suite runs what failed and what takes long: a run that is cut short has told all of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

import pytest

LONG_S = 60.0
"""Seconds after which a test that still runs is named, and again after as many more."""


class LiveReport:
    """Prints each failure when it happens, and the names of tests that have been running for long.

    Parameters
    ----------
    terminal : pytest.TerminalReporter
        Of the process that the user sees: with xdist it hears of the tests of all workers.
    long_s : float
        Seconds after which a test takes long.
    """

    def __init__(self, terminal: pytest.TerminalReporter, *, long_s: float = LONG_S) -> None:
        self._terminal = terminal
        self._long_s = long_s
        self._began: dict[str, float] = {}
        self._over = threading.Event()
        threading.Thread(target=self._watch, name="live report", daemon=True).start()

    def pytest_sessionfinish(self) -> None:
        self._over.set()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._began[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._began.pop(nodeid, None)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.failed:
            return
        self._began.pop(report.nodeid, None)  # of a worker that died nothing more is heard
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = report.longreprtext if crash is None else f"{crash.path}:{crash.lineno}: {crash.message}"
        self._say([f"FAILED {report.nodeid} ({report.when})", *reason.strip().splitlines()[:3]])

    def late(self, now: float) -> list[str]:
        """Tests that have been running for long, longest first."""
        running = sorted((began, test) for test, began in list(self._began.items()))
        return [f"running for {now - at:.0f} s: {test}" for at, test in running if now - at >= self._long_s]

    def _watch(self) -> None:
        while not self._over.wait(self._long_s):
            self._say(self.late(time.monotonic()))

    def _say(self, lines: Iterable[str]) -> None:
        for place, line in enumerate(lines):
            self._terminal.write_line(line if place else f"\n{line}")  # the line of dots is not at its end
