"""Why something cannot be done this way, as a value: another way may do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unsupported:
    """Returned in the place of a result by what need not apply; errors are for what nothing else can mend.

    Parameters
    ----------
    reason : str
        What does not hold, in one line, for users' eyes.
    place : str
        What it is about (an algorithm, a piece of a fabric), where the reason does not say so itself.

    Examples
    --------
    >>> str(Refusal("shards are unequal", "circulant trees"))
    'circulant trees: shards are unequal'
    """

    reason: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}" if self.place else self.reason
