"""Settings of the whole suite: deterministic hypothesis, failures said at once, engines that were skipped."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from engines import missing_engines, skipped_against_orders
from harness.live_report import LiveReport
from harness.own_folders import WriteGuard

settings.register_profile(
    "treadle",
    derandomize=True,
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("treadle")

for _path in (Path.home() / ".config/pip/pip.conf", Path.home() / ".pip/pip.conf"):
    if _path.is_file():  # where the user's pip finds packages
        os.environ.setdefault("PIP_CONFIG_FILE", str(_path))

_HOME = tempfile.mkdtemp(prefix="treadle-tests-")
"""No test leaves anything in the user's home or caches, nor does a process that a test starts."""
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)
for _name, _folder in (
    ("TREADLE_CACHE_DIR", "plans"),
    ("XDG_CACHE_HOME", "cache"),
    ("XDG_CONFIG_HOME", "config"),
    ("XDG_DATA_HOME", "data"),
    ("HOME", "home"),
):
    os.environ[_name] = str(Path(_HOME, _folder))
    Path(_HOME, _folder).mkdir()

for _name in [_name for _name in os.environ if _name.startswith("TREADLE_")]:
    if _name not in ("TREADLE_CACHE_DIR", "TREADLE_REQUIRED_ENGINES"):
        del os.environ[_name]  # what whoever runs the tests has set for himself

_GUARD = WriteGuard()
_GUARD.install()

# A shell ignores Ctrl-C in what it starts in the background, and so would all that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[1]

gc.disable()  # until all is collected: nothing that is imported goes away


def pytest_sessionstart(session: pytest.Session) -> None:
    """Report live, in the process that has a terminal: workers of xdist have none."""
    plugins = session.config.pluginmanager
    terminal = plugins.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(session.config, "workerinput"):
        plugins.register(LiveReport(terminal), "live report")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is listed as slow, which `make test` leaves to `make test-all`."""
    listed = [
        line for line in (ROOT / "tests/slow_tests.txt").read_text().splitlines() if "tests/" in line[:6]
    ]
    single, whole = {one for one in listed if "::" in one}, tuple(one for one in listed if "::" not in one)
    for item in items:
        if item.nodeid.startswith(whole) or item.nodeid.partition("[")[0] in single:
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """No later collection of garbage walks all tests and modules again."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the working tree."""
    return ROOT


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Let tests write in temporary folders only."""
    _GUARD.is_on = True
    try:
        return (yield)
    finally:
        _GUARD.is_on = False


def _forbidden_skips(config: pytest.Config) -> list[str]:
    """Engines that had to be there and were skipped."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    skipped = [] if terminal is None else terminal.stats.get("skipped", [])
    return skipped_against_orders(missing_engines(), [str(report.longrepr[2]) for report in skipped])


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run that had orders to use an engine and skipped it."""
    if not hasattr(session.config, "workerinput") and exitstatus == 0 and _forbidden_skips(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Say last of all, just above pytest's own closing line, which engines were skipped."""
    result = yield
    missing = missing_engines()
    text = "; ".join(f"{engine} ({reason})" for engine, reason in missing.items())
    terminalreporter.write_line(f"engines skipped: {text or 'none'}")
    for engine in _forbidden_skips(terminalreporter.config):
        terminalreporter.write_line(f"FAILED: {engine} is required here and was skipped")
    return result
