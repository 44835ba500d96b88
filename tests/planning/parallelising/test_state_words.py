"""States in words: typed and read again, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import FormatError
from treadle.parallelism.explaining.state_format import read_state, spelled_state
from treadle.parallelism.state.sharding import Sharding

AXES = ("dp", "tp", "0")


@given(st.permutations(AXES), st.lists(st.integers(0, 3), min_size=3, max_size=3))
def test_what_is_spelled_is_read_again(axes: list[str], places: list[int]) -> None:
    """Place 3: that axis cuts nothing."""
    dims = tuple(tuple(axis for axis, at in zip(axes, places, strict=True) if at == dim) for dim in range(3))
    state = Sharding(dims)
    assert read_state(spelled_state("bsh", state), "bsh", AXES, place="here") == state


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k:dp", "expected DIM:AXIS"),
        ("b", "expected DIM:AXIS"),
        ("b:pp", "no axis 'pp'"),
        ("b:dp/b:tp", "dimension b appears twice"),
        ("b:dp/s:dp", "an axis shards two dimensions"),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_state(text, "bsh", AXES, place="here")
