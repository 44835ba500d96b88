"""Runs CP-SAT in a process of its own: it cannot share one with HiGHS, and a kill stops any search."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import treadle
from treadle.errors import MissingDependencyError, TreadleError

MAX_ANSWER_BYTES = 2**28
"""Longest answer line."""

_GRACE_S = 15.0
"""Start of the process (a second, more on a busy machine) and the solver's own reaction to its limit."""


def require_ortools() -> None:
    """Raise MissingDependencyError unless ortools is installed; does not import it."""
    if importlib.util.find_spec("ortools") is None:
        raise MissingDependencyError(
            "exact synthesis needs ortools, which is not installed: pip install 'treadle[exact]'"
        )


class SolverProcess:
    """CP-SAT in a child process for any number of requests; a context manager.

    The child starts with the first request and ends with the block, on an exception, on Ctrl-C, and when
    this process dies.

    Raises
    ------
    MissingDependencyError
        If ortools is not installed.
    """

    def __init__(self) -> None:
        require_ortools()
        self._child: subprocess.Popen[bytes] | None = None
        self._last_words: deque[bytes] = deque(maxlen=1)
        self._readers: list[threading.Thread] = []
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def __enter__(self) -> SolverProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The child's process id while it runs."""
        return None if self._child is None else self._child.pid

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout, child.stderr):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):  # a request that the child never read
                        pipe.close()

    def solve(self, request: Mapping[str, Any], *, time_limit_s: float) -> dict[str, Any]:
        """Answer of the worker to a request; status unknown if it had to be killed at the time limit.

        Raises
        ------
        MissingDependencyError
            If ortools cannot be loaded.
        TreadleError
            If the process fails.
        """
        child = self._start()
        line = json.dumps({**request, "time_limit_s": time_limit_s}, separators=(",", ":")).encode()
        try:
            assert child.stdin is not None
            # a request may be longer than a pipe, and the child may never read it
            threading.Thread(target=_send, args=(child.stdin, line + b"\n"), daemon=True).start()
            answer = self._answers.get(timeout=time_limit_s + _GRACE_S)
        except queue.Empty:
            self.close()
            return {"status": "unknown", "wall_s": time_limit_s, "cpu_s": time_limit_s}
        except BaseException:  # Ctrl-C above all: the search must not go on
            self.close()
            raise
        return self._parsed(answer)

    def _parsed(self, answer: bytes) -> dict[str, Any]:
        try:
            result = json.loads(answer) if answer.endswith(b"\n") else None
        except ValueError:
            result = None
        if isinstance(result, dict) and result.get("status") in ("found", "infeasible", "unknown"):
            return result
        reason = result.get("message") if isinstance(result, dict) else self._reason()
        self.close()
        if isinstance(result, dict) and result.get("status") == "unusable":
            raise MissingDependencyError(
                f"exact synthesis: ortools is installed but cannot be loaded ({reason}); reinstall it: pip "
                f"install --force-reinstall 'treadle[exact]'"
            )
        raise TreadleError(f"exact synthesis: the solver's process failed: {reason}")

    def _reason(self) -> str:
        """Last message of the failed process."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
        for thread in self._readers:
            thread.join(timeout=1.0)
        if self._last_words:
            return self._last_words[0].decode(errors="replace").strip()
        return f"no answer of at most {MAX_ANSWER_BYTES} bytes"

    def _remember(self, line: bytes) -> None:
        if line.strip():
            self._last_words.append(line)

    def _start(self) -> subprocess.Popen[bytes]:
        if self._child is not None:
            return self._child
        home = str(Path(treadle.__file__).parents[1])
        paths = [*filter(None, [os.environ.get("PYTHONPATH")]), home]
        self._last_words = deque(maxlen=1)
        self._answers = queue.SimpleQueue()
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", "treadle.synthesis.steps.exact.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,  # a Ctrl-C reaches this process alone, which then kills the child
        )
        assert self._child.stdout is not None
        assert self._child.stderr is not None
        self._readers = [
            threading.Thread(target=_collect, args=(self._child.stdout, self._answers.put), daemon=True),
            threading.Thread(target=_collect, args=(self._child.stderr, self._remember), daemon=True),
        ]
        for thread in self._readers:
            thread.start()
        return self._child


def _send(stream: IO[bytes], line: bytes) -> None:
    """Write a line; a child that has ended says so by the end of its answers."""
    with contextlib.suppress(OSError, ValueError):
        stream.write(line)
        stream.flush()


def _collect(stream: IO[bytes], take: Callable[[bytes], None]) -> None:
    """Hand over the lines, and an empty answer at the end so that no reader waits in vain."""
    line = b" "
    while line:
        try:
            line = stream.readline(MAX_ANSWER_BYTES)
        except ValueError:  # closed
            return
        take(line)
