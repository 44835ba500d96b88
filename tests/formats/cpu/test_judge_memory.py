"""Memory in segments, against places one by one."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.formats.cpu.interpreter_memory import Content, MemorySegments, Piece, Ranges, added

SIZE = 12
SPANS = st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)).map(lambda ends: (min(ends), max(ends)))
CONTENTS = st.integers(0, 3).map(lambda number: {(number, 0): 1 + number // 2})
PARTS = st.lists(st.tuples(st.integers(1, 4), CONTENTS), min_size=6, max_size=6)


def spread(pieces: list[Piece]) -> list[Content | None]:
    """What each place holds; pieces must follow each other without gaps."""
    assert all(one[1] == other[0] for one, other in pairwise(pieces))
    return [content for low, past, content in pieces for _ in range(low, past)]


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.lists(st.tuples(SPANS, CONTENTS, CONTENTS), max_size=8), SPANS)
def test_segments(writes: list[tuple[tuple[int, int], Content, Content]], read: tuple[int, int]) -> None:
    segments, places = MemorySegments(), list[Content | None]([None] * SIZE)
    for (low, past), one, other in writes:
        middle = (low + past) // 2
        pieces: list[Piece] = [
            piece for piece in ((low, middle, one), (middle, past, other)) if piece[0] < piece[1]
        ]
        if pieces:
            segments.write(low, past, pieces)
        places[low:middle], places[middle:past] = [one] * (middle - low), [other] * (past - middle)
    assert spread(segments.read(*read)) == places[slice(*read)]
    assert spread(segments.read(0, SIZE)) == places


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.lists(SPANS, max_size=8), SPANS)
def test_ranges(adds: list[tuple[int, int]], asked: tuple[int, int]) -> None:
    ranges, places = Ranges(), set[int]()
    for low, past in adds:
        ranges.add(low, past)
        places.update(range(low, past))
    assert ranges.meets(*asked) == bool(places.intersection(range(*asked)))
    assert ranges.first_in(*asked) == min(places.intersection(range(*asked)), default=None)
    assert ranges.first_out(*asked) == min(set(range(*asked)) - places, default=None)
    assert [place for span in ranges for place in range(*span)] == sorted(places)
    assert bool(ranges) == bool(places)
    ranges.clear()
    assert not ranges.meets(0, SIZE)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(PARTS, PARTS)
def test_sums(one_side: list[tuple[int, Content]], other_side: list[tuple[int, Content]]) -> None:
    sides: list[list[Piece]] = []
    for parts in (one_side, other_side):
        pieces, low = list[Piece](), 0
        for length, content in parts:
            past = min(low + length, 6)
            pieces += [(low, past, content)] * (low < past)
            low = past
        sides.append(pieces)
    total = spread(added(*sides))
    assert len(total) == 6
    for one, other, found in zip(*map(spread, sides), total, strict=True):
        assert one is not None
        assert other is not None
        keys = one.keys() | other.keys()
        assert found == {key: one.get(key, 0) + other.get(key, 0) for key in keys}
