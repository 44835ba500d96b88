"""Progress and time limit of long work."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

Progress = Callable[[str, int, int], None]
"""Called as progress(stage, done, total) a few times a second; total is 0 where it is not known."""


class TimeLimitError(Exception):
    """The deadline passed before the work was done.

    Examples
    --------
    >>> import treadle
    >>> try:
    ...     treadle.bound("dgx_a100:2", "allreduce", time_limit_s=0)
    ... except treadle.planning.TimeLimitError:
    ...     print("no time")
    no time
    """


@dataclass(frozen=True)
class Watch:
    """Carried through long work: loops in Python call `beat` at every step, the compiled core is run with it.

    Parameters
    ----------
    progress : callable, optional
        progress(stage, done, total).
    deadline : float, optional
        Value of time.monotonic() after which `beat` raises TimeLimitError.
    """

    progress: Progress | None = None
    deadline: float | None = None

    @property
    def unlimited(self) -> Watch:
        """The same without a deadline, for work that is worth waiting for."""
        return self if self.deadline is None else replace(self, deadline=None)

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and time.monotonic() > self.deadline

    @property
    def seconds_left(self) -> float | None:
        """Until the deadline, 0 if it has passed; None without one."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def announce(self, stage: str) -> None:
        """Report that a stage begins whose steps nobody counts."""
        if self.progress is not None:
            self.progress(stage, 0, 0)

    def beat(self, stage: str, done: int, total: int) -> None:
        """Report progress; raise TimeLimitError if the deadline has passed."""
        if self.is_late:
            raise TimeLimitError(stage)
        if self.progress is not None:
            self.progress(stage, done, total)


UNWATCHED = Watch()
"""No progress, no time limit."""
