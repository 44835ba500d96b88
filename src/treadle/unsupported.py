"""Reason why something is not supported this way, as a value: another way may be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unsupported:
    """Returned instead of a result by algorithms that need not apply; errors are for anything final.

    Parameters
    ----------
    reason : str
        What does not hold, in one line, for users' eyes.
    place : str
        Subject (an algorithm, a part of a fabric), if the reason does not name it.

    Examples
    --------
    >>> str(Unsupported("shards are unequal", "circulant trees"))
    'circulant trees: shards are unequal'
    """

    reason: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}" if self.place else self.reason
