"""Errors that Treadle raises for bad input: one line with what, where, expected and found, and a fix."""

from __future__ import annotations


class TreadleError(ValueError):
    """Base of every error that a user can cause."""


class TopologyError(TreadleError):
    """A fabric is malformed: an unknown node, a non-positive bandwidth, a switch without links."""


class ScheduleError(TreadleError):
    """A schedule, collective or program is malformed or cannot be used as asked."""


class InfeasibleError(TreadleError):
    """No schedule exists under the stated conditions (unreachable rank, non-Eulerian switch, ...)."""


class FormatError(TreadleError):
    """A file or a typed expression cannot be read.

    Parameters
    ----------
    message : str
        What failed, expected and found.
    source : str, optional
        File name or the string being parsed.
    line, column : int, optional
        Place, counted from 1.
    """

    def __init__(
        self, message: str, *, source: str = "", line: int | None = None, column: int | None = None
    ) -> None:
        place = source
        if line is not None:
            place += f":{line}"
            if column is not None:
                place += f":{column}"
        super().__init__(f"{place}: {message}" if place else message)
        self.line = line
        self.column = column


class MemoryLimitError(TreadleError):
    """Something needs more memory than there is, or than was granted; the message says what and how much."""


class MissingDependencyError(TreadleError):
    """An optional dependency is absent; the message names the extra that brings it."""
