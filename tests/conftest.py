"""Settings of the whole suite: deterministic hypothesis, failures said at once, engines that were skipped."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from live_report import LiveReport

settings.register_profile(
    "treadle", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("treadle")

os.environ["TREADLE_CACHE_DIR"] = tempfile.mkdtemp(prefix="treadle-tests-")
"""No test leaves plans in the user's cache."""
atexit.register(shutil.rmtree, os.environ["TREADLE_CACHE_DIR"], ignore_errors=True)

# A shell ignores Ctrl-C in what it starts in the background, and so would all that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[1]


def pytest_sessionstart(session: pytest.Session) -> None:
    """Report live, in the process that has a terminal: workers of xdist have none."""
    plugins = session.config.pluginmanager
    terminal = plugins.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(session.config, "workerinput"):
        plugins.register(LiveReport(terminal), "live report")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the working tree."""
    return ROOT


def missing_engines() -> Mapping[str, str]:
    """Optional engines that tests on this machine cannot use, and why."""
    missing: dict[str, str] = {}
    if importlib.util.find_spec("mpi4py") is None:
        missing["MPI"] = "mpi4py is not installed; pip install 'treadle[mpi]'"
    elif mpirun() is None:
        missing["MPI"] = "no mpirun on the PATH or beside the interpreter"
    reason = testbed_refusal()
    if reason is not None:
        missing["testbed"] = reason
    if importlib.util.find_spec("ortools") is None:
        missing["CP-SAT"] = "ortools is not installed; pip install 'treadle[exact]'"
    if importlib.util.find_spec("google.protobuf") is None:
        missing["Chakra"] = "protobuf is not installed; pip install 'treadle[chakra]'"
    if importlib.util.find_spec("ml_dtypes") is None:
        missing["bfloat16"] = "ml_dtypes is not installed; pip install 'treadle[bfloat16]'"
    if importlib.util.find_spec("torch") is None:
        missing["torch"] = "PyTorch is not installed; pip install 'treadle[torch]'"
    if importlib.util.find_spec("matplotlib") is None:
        missing["matplotlib"] = "matplotlib is not installed; pip install 'treadle[plot]'"
    if not (shutil.which("smpicc") and shutil.which("smpirun")):
        missing["SimGrid"] = "no smpicc and smpirun on the PATH; Debian's libsimgrid-dev has them"
    return missing


def testbed_refusal() -> str | None:
    """Why networks cannot be emulated here; None if they can."""
    try:
        from treadle.testbed.network import missing_requirement
    except ImportError as error:  # what is wrong has been said by every test
        return str(error)
    return missing_requirement()


def mpirun() -> str | None:
    """The mpirun beside the running interpreter, else the one on the PATH."""
    import sys

    beside = Path(sys.executable).parent / "mpirun"
    return str(beside) if beside.exists() else shutil.which("mpirun")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Say last of all, just above pytest's own closing line, which engines were skipped."""
    result = yield
    missing = missing_engines()
    text = "; ".join(f"{engine} ({reason})" for engine, reason in missing.items())
    terminalreporter.write_line(f"engines skipped: {text or 'none'}")
    return result
