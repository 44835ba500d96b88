"""The compiled core as generators run it: `treadle.engine`."""

from __future__ import annotations

from treadle.engine import Progress, TimeLimitError, announce, core, run_until, run_watched

__all__ = ["Progress", "TimeLimitError", "announce", "core", "run_until", "run_watched"]
