"""Optima after random failures, against bounds of the same fabrics and against what one cable gives back."""

from __future__ import annotations

import pytest

from treadle.errors import FormatError
from treadle.finder.building.resilience import resilience
from treadle.planning import parse_amounts


def test_switched_fabrics_lose_cables_too() -> None:
    found = resilience("leaf_spine(2, 2, gpus_per_leaf=4)", cables=[1], samples=2, collectives=["alltoall"])
    assert 0 < found.levels[0].worst < 1


@pytest.mark.parametrize("text", ["", "x", "1.5", "-1", "5%%", "1e3", "%", "1,,2"])
def test_amounts_that_are_none(text: str) -> None:
    with pytest.raises(FormatError, match="--cables: found"):
        parse_amounts(text, "--cables")
