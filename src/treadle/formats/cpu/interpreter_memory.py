"""Content of a memory, and the places in use, both as ranges of places."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise

Content = dict[tuple[int, int], int]
"""Number of times that place x contains chunk x + shift of a rank's input, by (rank, shift); immutable."""

Piece = tuple[int, int, Content | None]
"""First place, one past the last, and the content of each place; None: undefined."""


def added(one: list[Piece], other: list[Piece]) -> list[Piece]:
    """Add two lists of segments that cover the same places, none of them undefined."""
    bounds = sorted(
        {bound for segments in (one, other) for low, past, _ in segments for bound in (low, past)}
    )
    left, right = MemorySegments(one), MemorySegments(other)
    found: list[Piece] = []
    for low, past in pairwise(bounds):
        ((_, _, first),), ((_, _, second),) = left.read(low, past), right.read(low, past)
        total = dict(first or {})
        for key, times in (second or {}).items():
            total[key] = total.get(key, 0) + times
        found.append((low, past, total))
    return found


class MemorySegments:
    """A memory as rising segments of places with the same content; all other places are undefined."""

    def __init__(self, segments: Iterable[Piece] = ()) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        self._contents: list[Content | None] = []
        for low, past, content in segments:
            self.write(low, past, [(low, past, content)])

    def read(self, low: int, past: int) -> list[Piece]:
        """Return the content of the places from `low` up to `past`, in order and without gaps."""
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

    def write(self, low: int, past: int, segments: list[Piece]) -> None:
        """Replace the content of the places from `low` up to `past` by segments that cover them."""
        first, after = bisect_right(self._stops, low), bisect_left(self._starts, past)
        kept: list[Piece] = []
        if first < after and self._starts[first] < low:
            kept.append((self._starts[first], low, self._contents[first]))
        kept += segments
        if first < after and self._stops[after - 1] > past:
            kept.append((past, self._stops[after - 1], self._contents[after - 1]))
        self._starts[first:after] = [segment[0] for segment in kept]
        self._stops[first:after] = [segment[1] for segment in kept]
        self._contents[first:after] = [segment[2] for segment in kept]


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
        """Return the first of the places from `low` up to `past` that is in the set."""
        place = bisect_right(self._stops, low)
        if low >= past or place == len(self._starts) or self._starts[place] >= past:
            return None
        return max(low, self._starts[place])

    def first_out(self, low: int, past: int) -> int | None:
        """Return the first of the places from `low` up to `past` that is not in the set."""
        place = bisect_right(self._stops, low)
        if place < len(self._starts) and self._starts[place] <= low:
            low = self._stops[place]
        return low if low < past else None

    def meets(self, low: int, past: int) -> bool:
        """Whether some of the places from `low` up to `past` are in the set."""
        return self.first_in(low, past) is not None

    def add(self, low: int, past: int) -> None:
        """Add the places from `low` up to `past`."""
        if low >= past:
            return
        first, after = bisect_left(self._stops, low), bisect_right(self._starts, past)
        if first < after:
            low, past = min(low, self._starts[first]), max(past, self._stops[after - 1])
        self._starts[first:after], self._stops[first:after] = [low], [past]

    def clear(self) -> None:
        """Remove all places."""
        self._starts.clear()
        self._stops.clear()
