"""The watch over the compiled core: interrupts and time limits reach it, and it is waited for."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest

from treadle.context import Context, TimeLimitError, under
from treadle.engine import run_core


def test_core_has_finished_after_any_number_of_interrupts() -> None:
    finished = threading.Event()
    main_thread = threading.main_thread().ident
    assert main_thread is not None

    def stubborn(control: np.ndarray) -> None:
        time.sleep(0.02)
        signal.pthread_kill(main_thread, signal.SIGINT)
        while not control[0]:
            time.sleep(0.001)
        for _ in range(3):  # an impatient user, while the core unwinds
            time.sleep(0.01)
            signal.pthread_kill(main_thread, signal.SIGINT)
        time.sleep(0.02)
        finished.set()

    with pytest.raises(KeyboardInterrupt):
        run_core("stage", stubborn)
    assert finished.is_set()


def test_deadline_stops_the_core() -> None:
    def patient(control: np.ndarray) -> None:
        while not control[0]:
            time.sleep(0.001)

    with pytest.raises(TimeLimitError), under(Context(deadline=time.monotonic() + 0.01)):
        run_core("stage", patient)


def test_failure_reaches_the_caller() -> None:
    def failing(control: np.ndarray) -> None:
        raise OverflowError("too large")

    with pytest.raises(OverflowError, match="too large"):
        run_core("stage", failing)
