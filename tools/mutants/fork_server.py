"""A process beside one copy of the tree that runs its tests in forks: `python fork_server.py TREE`.

The libraries that the package and its tests use are imported once, some seconds of CPU, the package itself in
each fork anew. It reads a line of JSON for each run, `{"tests": [...], "limit_s": 60, "flags": []}`, and
writes one: the exit status of pytest (null if it was ended at the limit) and its last word. Nothing of the
package, nor of this one, may be imported here.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

READY = "ready"
GONE = "not found: "
"""How the last word begins if there is no such test."""

_LIBRARIES = (
    "concurrent.futures", "highspy", "hypothesis.extra.numpy", "hypothesis.strategies", "lazy_loader",
    "lxml.etree", "matplotlib.pyplot", "multiprocessing", "networkx", "numpy", "ortools.sat.python.cp_model",
    "pydantic", "rich.console", "scipy.optimize", "scipy.sparse.csgraph", "scipy.stats", "sympy", "torch",
    "click", "unittest.mock", "xml.etree.ElementTree",
)  # fmt: skip
_TICK_S = 0.01


class _Chosen:
    """Plugin of pytest: the tests that are asked for, in the order in which they are."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._rank = {test: rank for rank, test in enumerate(tests)}
        self.gone = set(tests)
        """Those that there are not."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the others; what is asked for may be a file, a function or one of its parameters."""
        found: list[tuple[int, pytest.Item]] = []
        for item in items:
            for name in (item.nodeid, item.nodeid.partition("[")[0], item.nodeid.partition("::")[0]):
                if name in self._rank:
                    found.append((self._rank[name], item))
                    self.gone.discard(name)
                    break
        found.sort(key=lambda pair: pair[0])
        items[:] = [item for _, item in found]


def _run(tree: str, tests: Sequence[str], flags: Sequence[str], log: str) -> int:
    """In a fork: pytest on whole files, of which the plugin leaves what is asked for."""
    os.setsid()
    for descriptor, name, mode in ((0, os.devnull, os.O_RDONLY), (1, log, os.O_WRONLY | os.O_TRUNC)):
        os.dup2(os.open(name, mode), descriptor)
    os.dup2(1, 2)
    files, chosen = dict.fromkeys(test.partition("::")[0] for test in tests), _Chosen(tests)
    # plain assertions: what compileall has made of the tests serves, and none is rewritten for each fault
    words = ["-x", "-q", "-p", "no:cacheprovider", "--assert=plain", "--no-header", "--tb=no"]
    status = int(pytest.main([*words, *flags, f"--rootdir={tree}", *files], plugins=[chosen]))
    if chosen.gone and status != pytest.ExitCode.TESTS_FAILED:
        print(f"{GONE}{min(chosen.gone)}")
    return status


def _forked(tree: str, asked: Mapping[str, Any], log: str) -> int | None:
    """Exit status of the tests; None if they were ended at the limit, and all that they had started."""
    child = os.fork()
    if not child:
        status = 70  # of a fault in here, not in what is tested
        try:
            status = _run(tree, asked["tests"], asked["flags"], log)
            atexit._run_exitfuncs()  # the suite's own folders go
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)
    end, ended = time.monotonic() + asked["limit_s"], 0
    while not ended and time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if not ended:
            time.sleep(_TICK_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if not ended:
        os.waitpid(child, 0)
        return None
    return os.waitstatus_to_exitcode(status)


def _last_word(log: str) -> str:
    """What was said of the test that failed, or at the end."""
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    said = [line for line in lines if line.startswith(("FAILED", "ERROR", GONE))]
    said.sort(key=lambda line: line.startswith("ERROR:"))  # what broke a module, before the tests it lacks
    return (said or lines[-1:] or [""])[0][:200]


def main() -> None:
    """Serve until the other end of standard input is closed."""
    tree = sys.argv[1]
    os.chdir(tree)
    sys.path[0] = tree  # not the folder of this file
    for name in _LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    print(READY, flush=True)
    with tempfile.NamedTemporaryFile(prefix="mutants-", suffix=".log") as log:
        for line in sys.stdin:
            asked = json.loads(line)
            status = _forked(tree, asked, log.name)
            print(json.dumps({"status": status, "word": _last_word(log.name)}), flush=True)


if __name__ == "__main__":
    main()
