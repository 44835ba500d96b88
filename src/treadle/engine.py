"""Runs the compiled core with progress, interruption and time limits."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from treadle.arrays import Int64Array
from treadle.context import TimeLimitError, context
from treadle.errors import MissingDependencyError

try:
    from treadle import _core as core
except ImportError as error:  # pragma: no cover - only in a broken installation
    raise MissingDependencyError(
        f"the compiled core cannot be loaded ({error}); build it with: pip install . (needs g++)"
    ) from None

__all__ = ["core", "run_core", "run_until"]

Result = TypeVar("Result")

_POLL_S = 0.05


def run_core(stage: str, call: Callable[[Int64Array], Result]) -> Result:
    """Run `call(control)` of the core in a thread; report progress, stop it at Ctrl-C or at the deadline.

    Parameters
    ----------
    stage : str
        Name for progress reports.
    call : callable
        Gets the control array [cancel flag, done, total], shape (3,).

    Raises
    ------
    TimeLimitError
        When the deadline passed.
    """
    running = context()
    control = np.zeros(3, dtype=np.int64)
    outcome: list[Result] = []
    failure: list[BaseException] = []
    done = threading.Event()

    def work() -> None:
        try:
            outcome.append(call(control))
        except BaseException as error:  # handed to the caller's thread below
            failure.append(error)
        finally:
            done.set()

    threading.Thread(target=work, name=f"treadle-{stage}", daemon=True).start()
    late = False
    try:
        wait = 0.001
        # Not Thread.join: CPython 3.11 takes a thread whose join was interrupted for finished (bpo-45274).
        while not done.wait(wait):
            wait = min(2 * wait, _POLL_S)
            if running.progress is not None:
                running.progress(stage, int(control[1]), int(control[2]))
            if running.is_past_deadline and not late:
                late = True
                control[0] = 1
    finally:
        control[0] = 1
        _wait_for(done)
    if failure:
        raise failure[0]
    if late:
        raise TimeLimitError(stage)
    return outcome[0]


def run_until(stage: str, call: Callable[[Int64Array], Result]) -> Result:
    """Same as `run_core` for a call that returns its best result when stopped: a deadline is not an error."""
    outcome: list[Result] = []
    with contextlib.suppress(TimeLimitError):
        run_core(stage, lambda control: outcome.append(call(control)))
    return outcome[0]


def _wait_for(event: threading.Event) -> None:
    """Wait for a core that is being stopped, through any further Ctrl-C; the first is being raised.

    An interpreter that ends while the core still runs aborts the process.
    """
    while not event.is_set():
        with contextlib.suppress(KeyboardInterrupt):
            event.wait(_POLL_S)
