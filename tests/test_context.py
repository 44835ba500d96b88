"""The running context: limits, stages of time, and what generators and blocks of others see."""

from __future__ import annotations

import time
from typing import Any

import pytest

from treadle.context import (
    UNLIMITED,
    Context,
    TimeLimitError,
    WorkBudget,
    context,
    in_context,
    iterate_under,
    start,
    under,
)


def test_stages_add_up_and_are_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([5.0, 7.0, 10.0, 20.0, 21.0, 30.0, 34.0, 100.0, 101.0, 102.0])
    monkeypatch.setattr(time, "process_time", lambda: next(ticks))
    told: list[Any] = []
    with start(lambda *words: told.append(words)) as running:
        with running.stage("one_step"):
            assert context() is running
        with pytest.raises(KeyError), context().stage("two"):
            raise KeyError
        with under(running.unlimited), context().stage("two"):
            pass
        running.count("one_step", 0.5)
    assert running.seconds == {"one_step": 3.5, "two": 5.0, "total": 95.0}
    assert told == [("one step", 0, 0), ("two", 0, 0), ("two", 0, 0)]
    assert context() is UNLIMITED
    with context().stage("outside"):  # nothing is kept where nothing was started
        pass
    assert UNLIMITED.seconds == {}


def test_deadlines_and_budgets_end_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    with start(time_limit_s=2.5) as running:
        assert (running.deadline, running.seconds_left) == (102.5, 2.5)
        running.report("work", 1, 2)
    with under(Context(deadline=99.0)), pytest.raises(TimeLimitError):
        context().report("work", 1, 2)
    assert Context(deadline=99.0).seconds_left == 0.0
    spent = Context(budget=WorkBudget(3))
    spent.spend(3)
    assert (spent.is_late, spent.is_past_deadline, spent.unlimited.is_late) == (True, False, False)


def test_functions_run_in_contexts_of_their_own() -> None:
    @in_context()
    def limited(*, progress: Any = None, time_limit_s: float | None = None) -> Context:
        return context()

    @in_context(limited=False)
    def unlimited(*, time_limit_s: float | None = None) -> Context:
        return context()

    with under(Context(deadline=0.0)):
        assert limited().deadline is None
        assert limited(time_limit_s=9.0).deadline > time.monotonic()
        assert unlimited(time_limit_s=9.0).deadline is None


def test_items_are_made_in_a_context_that_their_user_does_not_see() -> None:
    running = Context(deadline=1.0)
    seen = [(item, context()) for item in iterate_under(running, (context() for _ in range(2)))]
    assert seen == [(running, UNLIMITED)] * 2
