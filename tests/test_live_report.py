"""A failure and a long test are named while the suite still runs; one that hangs ends, with its stack."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from child_processes import finished

TESTS = Path(__file__).resolve().parent

SUITE = """
import os, time

def test_wrong():
    assert 1 == 2, "one is not two"

def test_hangs():
    os.read(os.pipe()[0], 1)  # in C, for ever

def test_right():
    pass
"""

CONFTEST = """
from harness.live_report import LiveReport

def pytest_sessionstart(session):
    plugins = session.config.pluginmanager
    if not hasattr(session.config, "workerinput"):
        plugins.register(LiveReport(plugins.get_plugin("terminalreporter"), long_s=0.5))
"""


def test_failures_and_hanging_tests_are_named_at_once(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    (tmp_path / "test_suite.py").write_text(SUITE, encoding="utf-8")
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")  # no settings of folders above
    settings = ["faulthandler_timeout=2", "faulthandler_exit_on_timeout=true", f"pythonpath={TESTS}"]
    command = [sys.executable, "-m", "pytest", "-n", "1", "--dist", "worksteal", "-p", "no:cacheprovider"]
    command += [word for setting in settings for word in ("-o", setting)]
    done = finished(command, cwd=tmp_path, limit_s=120)
    assert done.returncode == 1, done.stderr
    assert "2 failed, 1 passed" in done.stdout
    early = done.stdout.partition("= FAILURES =")[0]
    assert "FAILED test_suite.py::test_wrong (call)" in early
    assert "one is not two" in early
    assert " s: test_suite.py::test_hangs" in early
    assert "crashed while running 'test_suite.py::test_hangs'" in early
    assert "in test_hangs" in done.stderr  # its stack
