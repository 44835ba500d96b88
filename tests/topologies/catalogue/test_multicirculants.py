"""Multicirculants: a turn of every orbit is an automorphism; Petersen's graph; what is no such graph."""

from __future__ import annotations

import pytest

from treadle.errors import TopologyError
from treadle.topologies import directed_multicirculant, multicirculant


@pytest.mark.parametrize(
    ("orbits", "heads", "words"),
    [
        ("2*5", [1, 5, 7, 8], "too many"),
        ("2*5", [1, 5], "too few"),
        ("2*5", [1, 2, 7], "more than 3 links"),
        ("2*5", [1, 5, 10], "each head must be at most 9"),
        ("2+3", [1], "divisors of the next size"),
        ("5x2", [1], "expected sizes such as"),
        ("", [1], "expected sizes such as"),
        ("9999999*9999999", [1], "expected sizes such as"),
    ],
)
def test_what_is_none_is_an_error_of_one_line(orbits: str, heads: list[int], words: str) -> None:
    with pytest.raises(TopologyError, match=words):
        multicirculant(orbits, 3, *heads)


def test_as_many_links_have_to_lead_into_a_node() -> None:
    with pytest.raises(TopologyError, match="has not 1 links into it"):
        directed_multicirculant("2*3", 1, 1, 0)
