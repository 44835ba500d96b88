"""Where text goes: data to stdout, progress and warnings to stderr, progress on a terminal only."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from treadle.cli.status import fail

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

_WIDE = 200
_REFRESH_S = 0.1


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
            sys.stdout.write(text + "\n")

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
            sys.stdout.write(text + "\n")

    def result(self, values: Mapping[str, object]) -> None:
        """Print the JSON object, if that was asked for."""
        if self.as_json:
            sys.stdout.write(json.dumps(values, ensure_ascii=False, allow_nan=False) + "\n")


def _rendered(console: Console, table: Table) -> list[str]:
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines() if line.strip()]


def warn(text: str) -> None:
    """One line on stderr."""
    fail(text, 0)


class ProgressLine:
    """Shows stage and share of the work on one line of stderr, if that is a terminal."""

    def __init__(self, *, quiet: bool) -> None:
        self._shows = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self._last = 0.0
        self._drawn = False

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Report; redraws at most ten times a second."""
        now = monotonic()
        if not self._shows or now - self._last < _REFRESH_S:
            return
        self._last, self._drawn = now, True
        share = f"{min(100, 100 * done // total)}%" if total > 0 else str(done)
        sys.stderr.write(f"\r\x1b[2K{stage} {share}")
        sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self._drawn:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
            self._drawn = False
