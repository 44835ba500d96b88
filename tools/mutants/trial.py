"""One fault planted, the tests that matter run until one fails, and the fault taken out again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

from .fork_server import GONE, READY
from .mutant import Mutant
from .tree import Tree

PASSED, FAILED, NO_SUCH_TESTS = 0, (1, 2), (4, 5)
"""Exit statuses of pytest; 2 or, where tests of it are asked for, 4 is a module that cannot be imported."""
CRASHES = tuple(
    -number for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGBUS, signal.SIGILL)
)
"""A fault in the compiled core may end the process; SIGKILL and SIGTERM come from outside and say nothing."""


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
    """The tests were stopped or are not there any more, or pytest failed: nothing is known of the fault."""


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


class TestServer:
    """The process that runs the tests of one tree; see `fork_server`.

    Parameters
    ----------
    tree : Tree
    """

    __test__ = False

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("fork_server.py")), str(tree.folder)],
            env=dict(tree.environment()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()

    def run(self, tests: Sequence[str], limit_s: float, *flags: str) -> tuple[int | None, str]:
        """The exit status of pytest, None if it had to be ended; and its last word about a test."""
        assert self._process.stdin is not None
        asked = {"tests": list(tests), "limit_s": limit_s, "flags": flags}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._answer())
        return answer["status"], answer["word"]

    def _answer(self) -> str:
        """A line of the process, behind whatever a library says when it is imported."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(("{", READY)):
                return line
        raise RuntimeError(f"the process that runs the tests of {self.tree.folder} has ended")


def run_tests(
    server: TestServer,
    tests: Sequence[str],
    limit_s: float,
    *,
    build: Callable[[Tree], str] | None = None,
    mutant: Mutant,
) -> Outcome:
    """Plant a fault, run tests until one fails, and take it out.

    Parameters
    ----------
    server : TestServer
    tests : sequence of str
        Their names as pytest has them, in this order.
    limit_s : float
        Wall seconds for all of them.
    build : callable, optional
        Compiles the tree where that is needed, before the tests and once more at the end; what it returns
        is the compiler's complaint.
    mutant : Mutant
    """
    tree = server.tree
    source = tree.read(mutant.path)
    tree.write(mutant.path, mutant.applied(source))
    try:
        complaint = "" if build is None else build(tree)
        if complaint:
            return Outcome(mutant, Fate.INVALID, 0, complaint)
        if not tests:
            return Outcome(mutant, Fate.UNTESTED, 0)
        status, word = server.run(tests, limit_s)
        if status is None:
            return Outcome(mutant, Fate.TIMEOUT, len(tests), "time limit")
        if word.startswith(GONE) or (status in NO_SUCH_TESTS and "not found" in word):
            # a test may go with the fault, as that of a row of a table does: then it notices nothing
            tree.write(mutant.path, source)
            _, sound = server.run(tests, limit_s, "--collect-only")
            if "not found" in sound:
                return Outcome(mutant, Fate.ENDED, len(tests), f"the map is out of date: {sound}")
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
