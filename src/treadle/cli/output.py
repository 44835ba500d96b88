"""Output of commands: data to stdout, progress (on a terminal only) and warnings to stderr."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import threading
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic
from typing import Any

from treadle.cli.status import TIME_LIMIT_REACHED, fail, put
from treadle.options.shared import Reporting
from treadle.render.quantities import AS_THEY_COME, Rates
from treadle.render.rows import WIDTH, View, lines, values

SCHEMA_VERSION = 1
"""Version of the ``--json`` schema; it changes when a key is removed or changes its meaning."""
COMMAND: ContextVar[str] = ContextVar("command", default="treadle")
"""Name of the command that is being run, such as ``topology-show``."""

FINDINGS: ContextVar[Mapping[str, object] | None] = ContextVar("findings", default=None)
"""JSON facts of the file that the command's fabric comes from: `defaulted` and `warnings`."""

STOPGAP = "this is a quick schedule instead of the requested one"
"""Result of a search that was stopped."""

_REFRESH_S = 0.1
_TICK_S = 0.5


@dataclass(frozen=True)
class Output:
    """Reporting of a command.

    Parameters
    ----------
    as_json : bool
        One JSON object on stdout.
    quiet : bool
        Print nothing on stdout.
    rates : Rates
        How bandwidths are shown.
    """

    as_json: bool = False
    quiet: bool = False
    rates: Rates = AS_THEY_COME

    @classmethod
    def of(cls, options: Reporting) -> Output:
        """Create it from the options."""
        return cls(options.json, options.quiet, Rates(getattr(options, "unit", None) or ""))

    @property
    def is_silent(self) -> bool:
        """Whether nothing is printed for people."""
        return self.as_json or self.quiet

    def show(self, view: View, *, variant: str = "", **more: Any) -> None:
        """Print rows and tables as text, or their JSON object with `more` (`result`)."""
        rows = list(view)
        if not self.is_silent:
            for text in lines(rows, _width()):
                put(text + "\n")
        if self.as_json:
            self.result({**values(rows), **more}, variant=variant)

    def result(self, values: Mapping[str, object], *, variant: str = "") -> None:
        """Print the JSON object if requested; its first key names its schema."""
        if self.as_json:
            schema = f"{COMMAND.get()}{variant and f'-{variant}'}/{SCHEMA_VERSION}"
            found = {"schema": schema, **values, **(FINDINGS.get() or {})}
            put(json.dumps(found, ensure_ascii=False, allow_nan=False) + "\n")


def _width() -> int:
    """Cells of a line of stdout."""
    return min(WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else WIDTH


def warn(text: str) -> None:
    """One line on stderr."""
    fail(text, 0)


def late(outcome: str) -> int:
    """Say in one line on stderr that the time limit was reached, and what there is; the exit status."""
    return fail(f"the time limit was reached; {outcome}", TIME_LIMIT_REACHED)


class ProgressLine:
    """Shows what is being done on one line of stderr, if that is a terminal, and takes it away at the end.

    The line has the stage and the share of it that is done, or else how long it has been going on: a thread
    redraws it between reports.

    Parameters
    ----------
    quiet : bool
        Show nothing.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._shows = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._redrawing = threading.Thread(target=self._redraw, name="treadle-progress", daemon=True)
        self._stage, self._share = "", ""
        self._since = self._last = 0.0

    def __enter__(self) -> ProgressLine:
        if self._shows:
            self._redrawing.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._shows:
            self._is_over.set()
            self._redrawing.join()
            _put("\r\x1b[2K")

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Report; redraws at most ten times a second."""
        if not self._shows:
            return
        with self._lock:
            now = monotonic()
            if stage != self._stage:
                self._stage, self._since = stage, now
            self._share = f"{min(100, 100 * done // total)}%" if total > 0 else str(done or "")
            if now - self._last >= _REFRESH_S:
                self._draw(now)

    def _redraw(self) -> None:
        """Draw again and again, so that the time goes on."""
        while not self._is_over.wait(_TICK_S):
            with self._lock:
                self._draw(monotonic())

    def _draw(self, now: float) -> None:
        elapsed = int(now - self._since)
        words = (self._stage, self._share or (f"{elapsed} s" if self._stage and elapsed else ""))
        self._last = now
        _put(f"\r\x1b[2K{' '.join(filter(None, words))}")


def _put(text: str) -> None:
    """Write to the terminal, if it is still there."""
    with contextlib.suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()
