"""Where text goes: data to stdout, progress and warnings to stderr, progress on a terminal only."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from treadle.cli.status import TIME_LIMIT_REACHED, fail, put

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
QuietOption = Annotated[bool, typer.Option("-q", "--quiet", help="Print no report; errors still appear.")]
SeedOption = Annotated[int, typer.Option(help="Seed of whatever is random.")]
TimeLimitOption = Annotated[
    str | None,
    typer.Option(help="Stop after this time, such as 30s, with the best found so far.", metavar="TIME"),
]

STOPGAP = "this is a schedule that was at hand in place of the wanted one"
"""What a search that is stopped leaves."""

_WIDE = 200
_REFRESH_S = 0.1
_TICK_S = 0.5


@dataclass(frozen=True)
class Output:
    """How a command reports.

    Parameters
    ----------
    as_json : bool
        One JSON object on stdout.
    quiet : bool
        No text on stdout.
    """

    as_json: bool = False
    quiet: bool = False

    def line(self, text: str = "") -> None:
        """Print a line of the report."""
        if not (self.as_json or self.quiet):
            put(text + "\n")

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
        """Print a table; all columns after the first `left` are aligned to the right."""
        if self.as_json or self.quiet:
            return
        # loaded here: a tenth of a second that commands without tables do not need
        from rich.console import Console
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style=None)
        for place, heading in enumerate(headings):
            table.add_column(heading, justify="left" if place < left else "right", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        terminal = sys.stdout.isatty()
        console = Console(file=sys.stdout, width=None if terminal else _WIDE, markup=False, highlight=False)
        for text in _rendered(console, table):
            put(text + "\n")

    def result(self, values: Mapping[str, object]) -> None:
        """Print the JSON object, if that was asked for."""
        if self.as_json:
            put(json.dumps(values, ensure_ascii=False, allow_nan=False) + "\n")


def _rendered(console: Console, table: Table) -> list[str]:
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines() if line.strip()]


def warn(text: str) -> None:
    """One line on stderr."""
    fail(text, 0)


def late(outcome: str) -> int:
    """Say in one line on stderr that the time limit was reached, and what there is; the exit status."""
    return fail(f"the time limit was reached; {outcome}", TIME_LIMIT_REACHED)


class ProgressLine:
    """Shows what is being done on one line of stderr, if that is a terminal, and takes it away at the end.

    The line has the stage and the share of it that is done, or else how long it has been going on: a thread
    redraws it while nobody reports.

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
