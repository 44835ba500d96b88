"""The process that is the links of an emulated network, where these have a delay; see ``c/delay_line.c``."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from treadle.errors import ScheduleError
from treadle.runtime.mpi_build import c_compiler, compiled, telling_line

TUN_DEVICE = Path("/dev/net/tun")
_STOP_S = 5.0


@dataclass(frozen=True)
class LineStatistics:
    """Accuracy of the links' delays.

    Parameters
    ----------
    frames, dropped : int
        Passed on, and dropped because too many waited.
    latest_s : float
        The longest that a frame came after its time.
    """

    frames: int
    dropped: int
    latest_s: float


class DelayLine:
    """A running delay line; `delay_line` makes one."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def statistics(self) -> LineStatistics:
        """Statistics of all frames; `latest_s` since the last call.

        Raises
        ------
        ScheduleError
            If the process has ended.
        """
        words = self._answer("").split()
        if len(words) != 3:
            raise ScheduleError(f"delay line: {self._reason()}")
        frames, dropped, latest_ns = map(int, words)
        return LineStatistics(frames, dropped, latest_ns / 1e9)

    def begin(self, links: Sequence[str]) -> None:
        """Make the interfaces; returns when they are there."""
        if self._answer("".join(f"{link}\n" for link in links) + "end") != "ready":
            raise ScheduleError(f"delay line: {self._reason()}")

    def _answer(self, text: str) -> str:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(f"{text}\n")
            process.stdin.flush()
        return process.stdout.readline().strip()

    def _reason(self) -> str:
        """Return the message of the process that has ended."""
        assert self._process.stderr is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_S)
            return telling_line(self._process.stderr.read()).removeprefix("delay line: ")
        return "does not answer"


def build_delay_line(*, directory: Path | None = None) -> Path:
    """The compiled delay line; compiles it if that was not done before.

    Raises
    ------
    MissingDependencyError
        If a C compiler is missing or fails, or the directory cannot be written.
    """
    source = Path(__file__).with_name("c") / "delay_line.c"
    return compiled("delay-line", c_compiler("links with a delay need"), [source], directory=directory)


@contextlib.contextmanager
def delay_line(links: Sequence[str]) -> Iterator[DelayLine]:
    """Interfaces joined by links of a rate and a delay, for as long as the context lasts.

    Parameters
    ----------
    links : sequence of str
        Lines as ``c/delay_line.c`` has them.

    Raises
    ------
    MissingDependencyError
        If it cannot be built.
    ScheduleError
        If it cannot make the interfaces.
    """
    with subprocess.Popen(
        [build_delay_line()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C ends it after the network, not before
    ) as process:
        try:
            line = DelayLine(process)
            line.begin(links)
            yield line
        finally:
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """Close its input, which ends it; kill it if it does not end."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
