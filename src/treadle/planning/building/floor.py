"""Where racks stand, and how long a cable between two places is.

Cables within a rack go straight up or down. Between racks they go up to the tray above the racks, along rows
and across them, and down again: the distance of Manhattan, as in the cabling models of Slim Fly (Besta and
Hoefler, 2014) and of "Minimal rewiring" (Zhao et al., NSDI 2019).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt
from pathlib import Path
from typing import Any

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import FormatError
from treadle.input_files import naming_file
from treadle.planning.building.toml_sheet import (
    check_known,
    line_of_text,
    metres,
    read_tables,
    sub_table,
    whole,
)

MAX_RACKS = 8192
"""A table of distances between all pairs of racks has 512 MB then."""
_RACK_KEYS = {"name", "x", "y"}


@dataclass(frozen=True)
class Rack:
    """A rack that stands somewhere.

    Parameters
    ----------
    name : str
    x, y : Fraction
        Metres, of its middle.
    """

    name: str
    x: Fraction
    y: Fraction


@dataclass(frozen=True)
class Floor:
    """Racks and trays.

    Parameters
    ----------
    racks : tuple of Rack
        Where they stand, if that was told; else they stand in rows, as many as are needed.
    per_row : int
        Racks in a row; 0: as many as make the room about square.
    width, pitch : Fraction
        Metres from rack to rack in a row, and from row to row.
    units : int
        Of a rack.
    node_units : int
        Units that a node takes.
    unit_height, tray, slack : Fraction
        Metres: a unit, from the top of a rack to the tray, and what every cable has beside its way.
    """

    racks: tuple[Rack, ...] = ()
    per_row: int = 0
    width: Fraction = Fraction(3, 5)
    pitch: Fraction = Fraction(12, 5)
    units: int = 48
    node_units: int = 1
    unit_height: Fraction = Fraction(4445, 100000)
    tray: Fraction = Fraction(1, 2)
    slack: Fraction = Fraction(1)

    def standing(self, count: int) -> tuple[Rack, ...]:
        """The first `count` racks; FormatError if there are fewer."""
        if self.racks:
            if count > len(self.racks):
                raise FormatError(f"the floor has {len(self.racks)} racks, and {count} are needed")
            return self.racks[:count]
        if count > MAX_RACKS:
            raise FormatError(
                f"{count} racks are needed, at most {MAX_RACKS} are placed; take a larger --rack-size"
            )
        # rows are as long as the room is deep
        row = self.per_row or max(1, ceil(isqrt(int(count * self.pitch / self.width * 100)) / 10))
        return tuple(
            Rack(f"r{place // row}c{place % row}", self.width * (place % row), self.pitch * (place // row))
            for place in range(count)
        )

    def height_below_tray(self, unit: int) -> Fraction:
        """Metres from the middle of the node that begins at `unit` (from 1 at the bottom) to the tray."""
        middle = (unit - 1 + Fraction(self.node_units, 2)) * self.unit_height
        return self.units * self.unit_height + self.tray - middle


def rack_distances(racks: tuple[Rack, ...]) -> Int64Array:
    """Millimetres along the tray between racks, shape (racks, racks)."""
    x = np.array([round(rack.x * 1000) for rack in racks], dtype=np.int64)
    y = np.array([round(rack.y * 1000) for rack in racks], dtype=np.int64)
    found: Int64Array = np.abs(x[:, None] - x) + np.abs(y[:, None] - y)
    return found


def load_floor(path: str | Path) -> Floor:
    """Read a floor: TOML with the tables ``[floor]``, ``[rack]`` and, for given racks, ``[[racks]]``.

    Raises
    ------
    FormatError
        If the file cannot be read or says something else.
    """
    with naming_file(path):
        return parse_floor(read_tables(path, "floor"))


def parse_floor(tables: Mapping[str, Any]) -> Floor:
    """A floor from the tables of its file; FormatError for what they must not say."""
    check_known(tables, "the file", {"floor", "rack", "racks"})
    floor, rack = sub_table(tables, "floor"), sub_table(tables, "rack")
    check_known(floor, "floor", {"racks_per_row", "rack_pitch", "row_pitch", "tray", "slack"})
    check_known(rack, "rack", {"units", "unit_height", "node_units"})
    values: dict[str, Any] = {}
    if "racks_per_row" in floor:
        values["per_row"] = whole(floor["racks_per_row"], "floor.racks_per_row")
    lengths = {"rack_pitch": "width", "row_pitch": "pitch", "tray": "tray", "slack": "slack"}
    for key, name in lengths.items():
        if key in floor:
            values[name] = metres(floor[key], f"floor.{key}")
    if "unit_height" in rack:
        values["unit_height"] = metres(rack["unit_height"], "rack.unit_height")
    for key in ("units", "node_units"):
        if key in rack:
            values[key] = whole(rack[key], f"rack.{key}", most=1000)
    if values.get("pitch") == 0 or values.get("width") == 0:
        raise FormatError("floor: racks that stand on each other; expected pitches above 0")
    given = tables.get("racks", [])
    if not isinstance(given, list) or len(given) > MAX_RACKS:
        raise FormatError(f"racks: expected tables [[racks]], at most {MAX_RACKS}")
    found = tuple(_rack(one, f"racks[{place}]") for place, one in enumerate(given))
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise FormatError(f"racks: {name!r} is named twice")
    return Floor(found, **values)


def _rack(value: Any, place: str) -> Rack:
    if not isinstance(value, dict) or set(value) != _RACK_KEYS:
        raise FormatError(f"{place}: expected name, x and y")
    return Rack(
        line_of_text(value["name"], f"{place}.name"),
        metres(value["x"], f"{place}.x"),
        metres(value["y"], f"{place}.y"),
    )
