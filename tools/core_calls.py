"""Plugin of pytest: counts the calls of every function of the compiled core, and wants each to be called."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import treadle._core as core

_calls: Counter[str] = Counter()


def _counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        _calls[name] += 1
        return function(*arguments, **options)

    return call


FUNCTIONS = [name for name, value in vars(core).items() if callable(value) and not isinstance(value, type)]
FUNCTIONS = [name for name in FUNCTIONS if not name.startswith("_")]

for _name in FUNCTIONS:
    setattr(core, _name, _counted(_name, getattr(core, _name)))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run that called some function of the core not once."""
    if exitstatus == 0 and set(FUNCTIONS) - set(_calls):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which core was loaded, and what was not called."""
    terminalreporter.write_line(f"core: {core.__file__}; {sum(_calls.values())} calls")
    for name in sorted(set(FUNCTIONS) - set(_calls)):
        terminalreporter.write_line(f"core: {name} was not called")
