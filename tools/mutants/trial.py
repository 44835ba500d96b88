"""One fault planted, the tests that matter run until one fails, and the fault taken out again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from .mutant import Mutant
from .tree import Tree

PASSED, FAILED, NO_SUCH_TESTS = 0, (1, 2), (4, 5)
"""Exit statuses of pytest; 2 or, where tests of it are asked for, 4 is a module that cannot be imported."""
CRASHES = tuple(
    -number for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGBUS, signal.SIGILL)
)
"""A fault in the compiled core may end the process; SIGKILL and SIGTERM come from outside and say nothing."""

_TESTS_A_RUN = 1500
"""Fewer than the words that a command line may have."""


class StaleMapError(Exception):
    """The map names tests that are not there any more."""


class Fate(StrEnum):
    """What became of a fault."""

    KILLED = "killed"
    SURVIVED = "survived"
    TIMEOUT = "timeout"
    """Some test ran for much longer than without the fault: noticed, too."""
    UNTESTED = "untested"
    """No test runs the line."""
    INVALID = "invalid"
    """It does not compile."""
    ENDED = "ended from outside"
    """The tests were stopped, or pytest itself failed: nothing is known of the fault."""


@dataclass(frozen=True)
class Outcome:
    """What became of a fault.

    Parameters
    ----------
    mutant : Mutant
    fate : Fate
    n_tests : int
        That were to be run.
    word : str
        Which test noticed it, or the compiler's complaint.
    """

    mutant: Mutant
    fate: Fate
    n_tests: int
    word: str = ""


def run_tests(
    tree: Tree,
    tests: Sequence[str],
    limit_s: float,
    *,
    build: Callable[[Tree], str] | None = None,
    mutant: Mutant,
) -> Outcome:
    """Plant a fault, run tests until one fails, and take it out.

    Parameters
    ----------
    tree : Tree
    tests : sequence of str
        Their names as pytest has them, in this order.
    limit_s : float
        Wall seconds for all of them.
    build : callable, optional
        Compiles the tree where that is needed, before the tests and once more at the end; what it returns
        is the compiler's complaint.
    mutant : Mutant
    """
    source = tree.read(mutant.path)
    tree.write(mutant.path, mutant.applied(source))
    try:
        complaint = "" if build is None else build(tree)
        if complaint:
            return Outcome(mutant, Fate.INVALID, 0, complaint)
        if not tests:
            return Outcome(mutant, Fate.UNTESTED, 0)
        for start in range(0, len(tests), _TESTS_A_RUN):
            status, word = _pytest(tree, tests[start : start + _TESTS_A_RUN], limit_s)
            if status is None:
                return Outcome(mutant, Fate.TIMEOUT, len(tests), word)
            if status in NO_SUCH_TESTS and "not found" in word:
                raise StaleMapError(word)
            if status in FAILED or status in CRASHES or _is_broken_module(status, word):
                return Outcome(mutant, Fate.KILLED, len(tests), word)
            if status != PASSED:
                return Outcome(mutant, Fate.ENDED, len(tests), f"exit status {status}: {word}")
        return Outcome(mutant, Fate.SURVIVED, len(tests))
    finally:
        tree.write(mutant.path, source)
        if build is not None:
            build(tree)


def _is_broken_module(status: int, word: str) -> bool:
    """Whether a module of tests, which the map shows to have run, raised when it was imported."""
    return status in NO_SUCH_TESTS and word.startswith("ERROR ")


def _pytest(tree: Tree, tests: Sequence[str], limit_s: float) -> tuple[int | None, str]:
    """Its exit status, None if it had to be ended; and its last word about a test."""
    words = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", f"--rootdir={tree.folder}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *words, *tests],
        cwd=tree.folder,
        env=dict(tree.environment()),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    with process:
        try:
            out, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            return None, "time limit"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    said = [line for line in out.splitlines() if line.startswith(("FAILED", "ERROR"))]
    said.sort(key=lambda line: line.startswith("ERROR:"))  # what broke a module, before the tests it lacks
    return process.returncode, (said or out.splitlines()[-1:] or [""])[0][:200]
