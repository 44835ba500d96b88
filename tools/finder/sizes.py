"""Sizes as the makers of libraries take them."""

from __future__ import annotations

from treadle.errors import TopologyError


def parse_sizes(text: str) -> list[int]:
    """Sizes of ``2-64,128``; TopologyError for anything else.

    Examples
    --------
    >>> parse_sizes("2-4,8")
    [2, 3, 4, 8]
    """
    sizes: list[int] = []
    for word in text.split(","):
        first, _, last = word.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()):
            raise TopologyError(f"--sizes: expected numbers and ranges such as 2-64,128, found {text!r}")
        sizes += range(int(first), int(last or first) + 1)
    return sizes
