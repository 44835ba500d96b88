"""Processes that tests start: none outlives its test, or waits for ever, or reads this process's input."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

LIMIT_S = 240.0
"""Default seconds for a process; below the limit of a test, which ends without a word from the process."""

_GRACE_S = 10.0


def search_path() -> str:
    """PYTHONPATH with which a process imports what this one can."""
    return os.pathsep.join(path for path in sys.path if path)


def ends_with_us() -> list[str]:
    """Words before a command that end it when this process dies; none where the tool is absent."""
    tool = shutil.which("setpriv")
    return [] if tool is None else [tool, "--pdeathsig", "KILL"]


@contextlib.contextmanager
def started(words: Sequence[object], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process in a session of its own; at the end of the block it and its children are killed.

    Parameters
    ----------
    words : sequence
        Command and arguments; it also ends when this process does.
    options
        As for `subprocess.Popen`; by default text, an empty input, and pipes for what it prints.
    """
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(
        [*ends_with_us(), *map(str, words)], start_new_session=True, **{"text": True, **pipes, **options}
    )
    try:
        yield process
    finally:
        _end(process)


def kill_session(process: subprocess.Popen[str]) -> None:
    """Send SIGKILL to a process that leads a session, and to all of that session: launchers make groups."""
    for number in [process.pid, *_members(process.pid)]:
        if number != process.pid or process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


def _members(session: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            after_name = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(after_name[3]) == session and after_name[0] not in "ZX":
                found.append(int(path.parent.name))
    return found


def _end(process: subprocess.Popen[str]) -> None:
    kill_session(process)
    process.wait(_GRACE_S)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def finished(
    words: Sequence[object],
    *,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    limit_s: float = LIMIT_S,
) -> subprocess.CompletedProcess[str]:
    """What a process and its children printed once it has ended; AssertionError if it does not in time.

    Unlike `subprocess.run`, which after its timeout waits for whoever still holds the pipes. Temporary files
    go with it: mpirun does not start where one that was killed left files named by the same process number.
    """
    given = os.environ if environment is None else environment
    with (
        tempfile.TemporaryDirectory(
            prefix="child-", dir=given.get("TMPDIR"), ignore_cleanup_errors=True
        ) as folder,
        started(words, env={**given, "TMPDIR": folder}, cwd=cwd) as process,
    ):
        try:
            out, errors = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired as late:
            said = [part.decode(errors="replace") if isinstance(part, bytes) else part or ""
                    for part in (late.stdout, late.stderr)]  # fmt: skip
            raise AssertionError(
                f"not finished after {limit_s:g} s: {list(map(str, words))}\n{said[0]}\n{said[1]}"
            ) from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


def wait_until(condition: Callable[[], bool], *, limit_s: float = 30.0, what: str = "") -> None:
    """Wait until a condition holds; AssertionError if it does not in time."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, f"after {limit_s:g} s still not: {what or condition}"
        time.sleep(0.05)


def first_line(process: subprocess.Popen[str], *, limit_s: float = 60.0) -> str:
    """The next line that a process prints; AssertionError if none comes in time."""
    assert process.stdout is not None
    timer = threading.Timer(limit_s, kill_session, [process])
    timer.start()
    try:
        line = process.stdout.readline()
    finally:
        timer.cancel()
        timer.join()
    assert line, f"no line within {limit_s:g} s: {process.args}"
    return line.rstrip("\n")
