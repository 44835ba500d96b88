"""Exhibits of the papers in their quick form, each computed once in a run of the tests."""

from __future__ import annotations

from functools import cache

from treadle.reproduction.reproduce import Reproduced, reproduce


@cache
def reproduced(name: str) -> Reproduced:
    """The exhibit of this name; what it holds is not changed."""
    return reproduce(name)
