"""Progress and time limit of long work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
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


@dataclass
class Allowance:
    """Work that may still be done, counted rather than timed: it ends at the same place on every machine.

    Parameters
    ----------
    left : int
        Some nanoseconds of the reference machine each; none left if not positive.
    """

    left: int


@dataclass(frozen=True)
class Watch:
    """Carried through long work: loops in Python call `beat` at every step, the compiled core is run with it.

    Parameters
    ----------
    progress : callable, optional
        progress(stage, done, total).
    deadline : float, optional
        Value of time.monotonic() after which `beat` raises TimeLimitError.
    allowance : Allowance, optional
        `beat` raises TimeLimitError when `spend` has used it up. Work that counts: trees of groups, and the
        constructions of allreduces.
    """

    progress: Progress | None = None
    deadline: float | None = None
    allowance: Allowance | None = None

    @property
    def unlimited(self) -> Watch:
        """The same without a limit, for work that is worth waiting for."""
        return replace(self, deadline=None, allowance=None)

    def within(self, work: int) -> Watch:
        """The same for a part of the work, which may take so much; a smaller allowance stays."""
        left = work if self.allowance is None else min(work, self.allowance.left)
        return replace(self, allowance=Allowance(left))

    @property
    def is_past_deadline(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and time.monotonic() > self.deadline

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed or the allowance is used up."""
        return self.is_past_deadline or (self.allowance is not None and self.allowance.left <= 0)

    def spend(self, work: int) -> None:
        """Take work that was done from the allowance, if there is one."""
        if self.allowance is not None:
            self.allowance.left -= work

    @property
    def seconds_left(self) -> float | None:
        """Until the deadline, 0 if it has passed; None without one."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def announce(self, stage: str) -> None:
        """Report that a stage begins whose steps nobody counts."""
        if self.progress is not None:
            self.progress(stage, 0, 0)

    def beat(self, stage: str, done: int, total: int) -> None:
        """Report progress; raise TimeLimitError if the deadline has passed or the allowance is used up."""
        if self.is_late:
            raise TimeLimitError(stage)
        if self.progress is not None:
            self.progress(stage, done, total)


UNWATCHED = Watch()
"""No progress, no time limit."""

_NOW: ContextVar[Watch] = ContextVar("treadle", default=UNWATCHED)


def now() -> Watch:
    """Return the limits under which the running work was started."""
    return _NOW.get()


@contextmanager
def limits(watch: Watch) -> Iterator[None]:
    """Run a block under these limits, which `now` returns; threads and processes started there see none."""
    token = _NOW.set(watch)
    try:
        yield
    finally:
        _NOW.reset(token)
