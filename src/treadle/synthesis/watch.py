"""Progress and time limit of work that is done in Python."""

from __future__ import annotations

import time
from dataclasses import dataclass

from treadle.synthesis.engine import Progress, TimeLimitError


@dataclass(frozen=True)
class Watch:
    """Carried through long loops, which call `beat` at every step.

    Parameters
    ----------
    progress : callable, optional
        progress(stage, done, total).
    deadline : float, optional
        Value of time.monotonic() after which `beat` raises TimeLimitError.
    """

    progress: Progress | None = None
    deadline: float | None = None

    def beat(self, stage: str, done: int, total: int) -> None:
        """Report progress; raise TimeLimitError if the deadline has passed."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise TimeLimitError(stage)
        if self.progress is not None:
            self.progress(stage, done, total)


UNWATCHED = Watch()
"""No progress, no time limit."""
