"""Where racks stand and how long ways are: small floors reckoned by hand, limits, and files in full."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from samples.toml_text import toml_text
from treadle.errors import FormatError
from treadle.finder.building import floor as floors
from treadle.finder.building.floor import MAX_RACKS, Floor, Rack, parse_floor, rack_distances


def floor_of(tables: dict[str, Any]) -> Floor:
    return parse_floor(toml_text(tables))


def test_the_usual_floor() -> None:
    assert Floor() == Floor(
        racks=(),
        per_row=0,
        width=Fraction("0.6"),
        pitch=Fraction("2.4"),
        units=48,
        node_units=1,
        unit_height=Fraction("0.04445"),
        tray=Fraction("0.5"),
        slack=Fraction(1),
    )
    assert MAX_RACKS == 8192


@pytest.mark.parametrize(
    ("width", "pitch", "count", "row"),
    [
        # the room is row x width long and about count / row x pitch deep
        (Fraction(1), Fraction(3, 2), 6, 3),  # the root of 9
        (Fraction(1), Fraction(3, 2), 7, 4),  # 3.24
        (Fraction(3, 5), Fraction(12, 5), 4, 4),
        (Fraction(3, 5), Fraction(12, 5), 5, 5),  # 4.47
        (Fraction(3, 5), Fraction(12, 5), 7, 6),  # 5.29
        (Fraction(100), Fraction(1, 100), 3, 1),
        (Fraction(1), Fraction(1), 101, 10),  # the root to a tenth, rounded down, is 10.0
        (Fraction(1), Fraction(1), 103, 11),  # 10.1
    ],
)
def test_rows_are_as_long_as_the_room_is_deep(width: Fraction, pitch: Fraction, count: int, row: int) -> None:
    racks = Floor(width=width, pitch=pitch).standing(count)
    assert racks == tuple(
        Rack(f"r{place // row}c{place % row}", width * (place % row), pitch * (place // row))
        for place in range(count)
    )


def test_rows_of_a_given_length() -> None:
    racks = Floor(per_row=2, width=Fraction(7, 10), pitch=Fraction(3)).standing(5)
    wide = Fraction(7, 10)
    assert racks == (
        Rack("r0c0", Fraction(0), Fraction(0)),
        Rack("r0c1", wide, Fraction(0)),
        Rack("r1c0", Fraction(0), Fraction(3)),
        Rack("r1c1", wide, Fraction(3)),
        Rack("r2c0", Fraction(0), Fraction(6)),
    )


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


def test_ways_to_the_tray() -> None:
    """From the middle of a node of three units that begins at the second: 2.5 units of the ten are below."""
    floor = Floor(units=10, node_units=3, unit_height=Fraction(1, 4), tray=Fraction(2, 3))
    assert floor.height_below_tray(2) == Fraction(10, 4) + Fraction(2, 3) - Fraction(5, 8)
    assert Floor(units=10, unit_height=Fraction(1)).height_below_tray(10) == 1


def test_ways_along_the_tray() -> None:
    racks = (
        Rack("a", Fraction(0), Fraction(10)),
        Rack("b", Fraction("1.2346"), Fraction(7)),
        Rack("c", Fraction(5), Fraction(8)),
    )
    assert rack_distances(racks).tolist() == [
        [0, 1235 + 3000, 5000 + 2000],
        [4235, 0, 3765 + 1000],
        [7000, 4765, 0],
    ]


def test_a_file_says_everything() -> None:
    found = floor_of(
        {
            "floor": {
                "racks_per_row": 7,
                "rack_pitch": "70cm",
                "row_pitch": "3m",
                "tray": "25cm",
                "slack": "5 mm",
            },
            "rack": {"units": 1000, "unit_height": "4cm", "node_units": 2},
            "racks": [{"name": "A", "x": "1m", "y": "2m"}, {"name": "B", "x": "3m", "y": "4m"}],
        }
    )
    assert found == Floor(
        racks=(Rack("A", Fraction(1), Fraction(2)), Rack("B", Fraction(3), Fraction(4))),
        per_row=7,
        width=Fraction(7, 10),
        pitch=Fraction(3),
        units=1000,
        node_units=2,
        unit_height=Fraction(1, 25),
        tray=Fraction(1, 4),
        slack=Fraction(1, 200),
    )
    assert floor_of({}) == Floor()
    apart = {"row_pitch": "1m", "rack_pitch": "1m"}
    assert floor_of({"floor": apart}) == Floor(width=Fraction(1), pitch=Fraction(1))
    assert floor_of({"rack": {"node_units": 3}}) == Floor(node_units=3)


def rack(**values: Any) -> dict[str, Any]:
    return {"name": "A", "x": "1m", "y": "2m"} | values


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"shelf": {}}, 'file: unknown key "shelf"; known are floor, rack, racks'),
        (
            {"floor": {"pitch": "1m"}},
            'floor: unknown key "pitch"; known are rack_pitch, racks_per_row, row_pitch, slack, tray',
        ),
        ({"rack": {"height": "1m"}}, 'rack: unknown key "height"; known are node_units, unit_height, units'),
        ({"floor": 3}, "floor: expected a table, found 3"),
        (
            {"rack": {"units": 1001}},
            "rack.units: expected 1 to 1000, found 1001",
        ),
        (
            {"rack": {"node_units": 1001}},
            "rack.node_units: expected 1 to 1000, found 1001",
        ),
        (
            {"floor": {"racks_per_row": 0}},
            "floor.racks_per_row: expected 1 to 1000000, found 0",
        ),
        (
            {"floor": {"tray": "2"}},
            'floor.tray: expected a length with a unit, as in 60cm or 2.4m, found "2"',
        ),
        (
            {"rack": {"unit_height": 4}},
            "rack.unit_height: expected a length with a unit, as in 60cm or 2.4m, found 4",
        ),
        (
            {"floor": {"rack_pitch": "0m"}},
            "floor: racks overlap; expected pitches above 0",
        ),
        ({"racks": {}}, "racks: expected a list, found an object"),
        ({"racks": [rack(), rack(name="B"), rack(name="C")]}, "racks: expected tables [[racks]], at most 2"),
        ({"racks": [rack(), 3]}, "racks[1]: expected a table, found 3"),
        ({"racks": [rack(z="1m")]}, 'racks[0]: unknown key "z"; known are name, x, y'),
        ({"racks": [rack(), rack(name="")]}, "racks[1].name: expected a string of one line"),
        (
            {"racks": [rack(x="far")]},
            'racks[0].x: expected a length with a unit, as in 60cm or 2.4m, found "far"',
        ),
        (
            {"racks": [rack(y="high")]},
            'racks[0].y: expected a length with a unit, as in 60cm or 2.4m, found "high"',
        ),
        ({"racks": [rack(), rack(x="3m")]}, "racks: 'A' is named twice"),
    ],
)
def test_what_a_file_must_not_say(
    tables: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floors, "MAX_RACKS", 2)
    with pytest.raises(FormatError) as caught:
        floor_of(tables)
    assert message in str(caught.value)
    if "key" not in message:
        assert str(caught.value) == message


def test_as_many_racks_as_a_file_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floors, "MAX_RACKS", 2)
    assert len(floor_of({"racks": [rack(), rack(name="B")]}).racks) == 2
