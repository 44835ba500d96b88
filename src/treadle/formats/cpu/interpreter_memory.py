"""What a memory holds, and which of it is in use, in ranges of places."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise

Content = dict[tuple[int, int], int]
"""How often place x contains chunk x + shift of a rank's input, for each (rank, shift); never changed."""

Piece = tuple[int, int, Content | None]
"""First place, one past the last, and what each of them holds; None: undefined."""


def added(one: list[Piece], other: list[Piece]) -> list[Piece]:
    """Sums of two lists of pieces that cover the same places, none of them undefined."""
    bounds = sorted({bound for pieces in (one, other) for low, past, _ in pieces for bound in (low, past)})
    found: list[Piece] = []
    ones, others = iter(one), iter(other)
    left, right = next(ones, None), next(others, None)
    for low, past in pairwise(bounds):
        while left is not None and left[1] <= low:
            left = next(ones, None)
        while right is not None and right[1] <= low:
            right = next(others, None)
        if left is not None and right is not None:
            total = dict(left[2] or {})
            for key, times in (right[2] or {}).items():
                total[key] = total.get(key, 0) + times
            found.append((low, past, total))
    return found


class MemorySegments:
    """A memory as rising segments of places that hold the same content; what is in none is undefined."""

    def __init__(self, pieces: Iterable[Piece] = ()) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        self._contents: list[Content | None] = []
        for low, past, content in pieces:
            self.write(low, past, [(low, past, content)])

    def read(self, low: int, past: int) -> list[Piece]:
        """All that places from `low` up to `past` hold, in order and without gaps."""
        found: list[Piece] = []
        place = bisect_right(self._stops, low)
        while low < past:
            start = self._starts[place] if place < len(self._starts) else past
            if start > low:
                found.append((low, min(start, past), None))
                low = start
            else:
                stop = min(past, self._stops[place])
                found.append((low, stop, self._contents[place]))
                low, place = stop, place + 1
        return found

    def write(self, low: int, past: int, pieces: list[Piece]) -> None:
        """Store pieces, which cover places from `low` up to `past`, over what is there."""
        first, after = bisect_right(self._stops, low), bisect_left(self._starts, past)
        kept: list[Piece] = []
        if first < after and self._starts[first] < low:
            kept.append((self._starts[first], low, self._contents[first]))
        kept += pieces
        if first < after and self._stops[after - 1] > past:
            kept.append((past, self._stops[after - 1], self._contents[after - 1]))
        self._starts[first:after] = [piece[0] for piece in kept]
        self._stops[first:after] = [piece[1] for piece in kept]
        self._contents[first:after] = [piece[2] for piece in kept]


class Ranges:
    """A set of places, as rising ranges that do not touch."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._stops, strict=True)

    def first_in(self, low: int, past: int) -> int | None:
        """The first of the places from `low` up to `past` that is in the set."""
        place = bisect_right(self._stops, low)
        if low >= past or place == len(self._starts) or self._starts[place] >= past:
            return None
        return max(low, self._starts[place])

    def first_out(self, low: int, past: int) -> int | None:
        """The first of the places from `low` up to `past` that is not in the set."""
        place = bisect_right(self._stops, low)
        if place < len(self._starts) and self._starts[place] <= low:
            low = self._stops[place]
        return low if low < past else None

    def meets(self, low: int, past: int) -> bool:
        """Whether some of the places from `low` up to `past` are in the set."""
        return self.first_in(low, past) is not None

    def add(self, low: int, past: int) -> None:
        """Add places from `low` up to `past`."""
        if low >= past:
            return
        first, after = bisect_left(self._stops, low), bisect_right(self._starts, past)
        if first < after:
            low, past = min(low, self._starts[first]), max(past, self._stops[after - 1])
        self._starts[first:after], self._stops[first:after] = [low], [past]

    def clear(self) -> None:
        """Leave nothing in the set."""
        self._starts.clear()
        self._stops.clear()
