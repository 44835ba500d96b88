"""CPU seconds by stage, and the time that is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic, process_time

from treadle.context import Context, Progress


class Stopwatch:
    """Adds up CPU seconds by stage.

    Parameters
    ----------
    progress : callable, optional
        Told when a stage begins.
    clock : callable
        Seconds of CPU time so far.
    """

    def __init__(
        self, progress: Progress | None = None, *, clock: Callable[[], float] = process_time
    ) -> None:
        self._progress = progress
        self._clock = clock
        self._start = clock()
        self._stages: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time of the block to `name`."""
        Context(self._progress).announce(name)
        start = self._clock()
        try:
            yield
        finally:
            self._stages[name] = self._stages.get(name, 0.0) + self._clock() - start

    def include(self, seconds: Mapping[str, float]) -> None:
        """Add stages that were measured elsewhere."""
        for name, spent in seconds.items():
            if name != "total":
                self._stages[name] = self._stages.get(name, 0.0) + spent

    def seconds(self) -> dict[str, float]:
        """Seconds of every stage so far, and `total`, which includes what no stage counts."""
        return {**self._stages, "total": self._clock() - self._start}


def seconds_left(time_limit_s: float | None) -> float | None:
    """The deadline as a value of time.monotonic(), or None without a limit."""
    return None if time_limit_s is None else monotonic() + time_limit_s
