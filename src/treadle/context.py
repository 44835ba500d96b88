"""The running context of long work: progress, deadline and work budget.

It is a context variable, not a parameter. Threads, processes and clusters do not see the caller's context, so
`synthesis.parallel.map_blocks` runs tasks without limits on all of them. A generator or closure that is used
later sees the context of its user: it captures `context()` where that matters, and never yields inside
`with under(...)`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, TypeVar, cast

Item = TypeVar("Item")
Function = TypeVar("Function", bound=Callable[..., Any])
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
class WorkBudget:
    """Work that may still be done, counted rather than timed: it ends at the same place on every machine.

    Parameters
    ----------
    left : int
        Some nanoseconds of the reference machine each; none left if not positive.
    """

    left: int


@dataclass(frozen=True)
class Context:
    """Progress, deadline and work budget: loops in Python call `report`, the core is run with it.

    Parameters
    ----------
    progress : callable, optional
        progress(stage, done, total).
    deadline : float, optional
        Value of time.monotonic() after which `report` raises TimeLimitError.
    budget : WorkBudget, optional
        `report` raises TimeLimitError when `spend` has used it up. Trees of groups and the constructions of
        allreduces count their work.
    clock : dict, optional
        CPU seconds by stage, which `stage` adds up; None outside of `start`, where they are not kept.
    """

    progress: Progress | None = None
    deadline: float | None = None
    budget: WorkBudget | None = None
    clock: dict[str, float] | None = field(default=None, compare=False)

    @property
    def unlimited(self) -> Context:
        """The same without a limit, for work that is worth waiting for."""
        return replace(self, deadline=None, budget=None)

    def within(self, work: int) -> Context:
        """Return the context of a part of the work with a budget of its own, at most what is left."""
        left = work if self.budget is None else min(work, self.budget.left)
        return replace(self, budget=WorkBudget(left))

    @property
    def seconds(self) -> dict[str, float]:
        """CPU seconds by stage, with `total` when what `start` began is over."""
        return {} if self.clock is None else self.clock

    @property
    def is_past_deadline(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and time.monotonic() > self.deadline

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed or the budget is used up."""
        return self.is_past_deadline or (self.budget is not None and self.budget.left <= 0)

    def spend(self, work: int) -> None:
        """Take work that was done from the budget, if there is one."""
        if self.budget is not None:
            self.budget.left -= work

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the deadline, 0 if it has passed; None without one."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def announce(self, stage: str) -> None:
        """Report that a stage begins whose steps are not counted."""
        if self.progress is not None:
            self.progress(stage, 0, 0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Announce a stage and add the CPU seconds of the block to `seconds`."""
        self.announce(name.replace("_", " "))
        begun = time.process_time()
        try:
            yield
        finally:
            self.count(name, time.process_time() - begun)

    def count(self, stage: str, seconds: float) -> None:
        """Add CPU seconds to a stage."""
        if self.clock is not None:
            self.clock[stage] = self.clock.get(stage, 0.0) + seconds

    def report(self, stage: str, done: int, total: int) -> None:
        """Report progress; raise TimeLimitError if the deadline has passed or the budget is used up."""
        if self.is_late:
            raise TimeLimitError(stage)
        if self.progress is not None:
            self.progress(stage, done, total)


UNLIMITED = Context()
"""No progress, no limits."""

_RUNNING: ContextVar[Context] = ContextVar("treadle", default=UNLIMITED)


def context() -> Context:
    """Return the running context."""
    return _RUNNING.get()


@contextmanager
def under(running: Context) -> Iterator[None]:
    """Run a block under a context, which `context` returns there."""
    token = _RUNNING.set(running)
    try:
        yield
    finally:
        _RUNNING.reset(token)


@contextmanager
def start(progress: Progress | None = None, time_limit_s: float | None = None) -> Iterator[Context]:
    """Run a block as work of its own: with this progress and time limit, whatever the running context is.

    The context of the block is that of `with start(...) as running`; its `seconds` have a total at the end.
    """
    begun = time.process_time()
    deadline = None if time_limit_s is None else time.monotonic() + time_limit_s
    running = Context(progress, deadline, clock={})
    try:
        with under(running):
            yield running
    finally:
        running.seconds["total"] = time.process_time() - begun


def in_context(*, limited: bool = True) -> Callable[[Function], Function]:
    """Run a function by `start`, with its keyword arguments `progress` and, if limited, `time_limit_s`."""

    def decorate(function: Function) -> Function:
        @wraps(function)
        def run(*arguments: Any, **keywords: Any) -> Any:
            limit = keywords.get("time_limit_s") if limited else None
            with start(keywords.get("progress"), limit):
                return function(*arguments, **keywords)

        return cast(Function, run)

    return decorate


def iterate_under(running: Context, items: Iterator[Item]) -> Iterator[Item]:
    """Iterate over items that are made under a context, which the code that uses them does not see."""
    done = object()
    while True:
        with under(running):
            item = next(items, done)
        if item is done:
            return
        yield cast(Item, item)
