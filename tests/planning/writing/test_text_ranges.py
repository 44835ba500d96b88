"""Ranges of sizes that texts are written for: cut, narrowed and told in words."""

from __future__ import annotations

import pytest

from treadle.lowering.ranges import (
    format_range,
)


@pytest.mark.parametrize(
    ("first", "last", "words"),
    [
        (0, None, "all sizes"),
        (0, 7, "to 7B"),
        (1, None, "from 1B"),
        (1024, 2**20, "from 1KB to 1MB"),
        (1025, 2**20 - 1, "from above 1KB to below 1MB"),
        (1536, 1537, "from 1.5KB to 1.5KB"),
        (2**30 + 1, None, "from above 1GB"),
        (1023, 1023, "from 1023B to 1023B"),
        (0, 2**20 + 1, "to above 1MB"),
    ],
)
def test_sizes_in_words(first: int, last: int | None, words: str) -> None:
    assert format_range(first, last) == words
