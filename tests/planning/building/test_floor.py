"""Where racks stand and how long ways are: small floors reckoned by hand, limits, and files in full."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from samples.toml_text import toml_text
from treadle.errors import FormatError
from treadle.finder.building import floor as floors
from treadle.finder.building.floor import MAX_RACKS, Floor, Rack, parse_floor


def floor_of(tables: dict[str, Any]) -> Floor:
    return parse_floor(toml_text(tables))


def test_as_many_racks_as_may_stand_and_one_more() -> None:
    assert len(Floor().standing(MAX_RACKS)) == MAX_RACKS
    with pytest.raises(FormatError) as caught:
        Floor().standing(MAX_RACKS + 1)
    assert str(caught.value) == "8193 racks are needed, at most 8192 are placed; take a larger --rack-size"
    two = (Rack("A", Fraction(1), Fraction(2)), Rack("B", Fraction(3), Fraction(5)))
    assert Floor(two).standing(2) == two
    assert Floor(two).standing(1) == two[:1]
    with pytest.raises(FormatError) as caught:
        Floor(two).standing(3)
    assert str(caught.value) == "the floor has 2 racks, and 3 are needed"


def rack(**values: Any) -> dict[str, Any]:
    return {"name": "A", "x": "1m", "y": "2m"} | values


def test_as_many_racks_as_a_file_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floors, "MAX_RACKS", 2)
    assert len(floor_of({"racks": [rack(), rack(name="B")]}).racks) == 2
