"""Positions of racks, and lengths of cables between them.

Cables within a rack go straight up or down. Between racks they go up to the tray above the racks, along rows
and across them, and down again: the distance of Manhattan, as in the cabling models of Slim Fly (Besta and
Hoefler, 2014) and of "Minimal rewiring" (Zhao et al., NSDI 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, field
from msgspec.structs import asdict

from treadle.arrays import Int64Array
from treadle.errors import FormatError
from treadle.finder.building.toml_sheet import Count, Length, check_line, metres, read_sheet
from treadle.input_files import naming_file
from treadle.typed_files import Table, read_toml

MAX_RACKS = 8192
"""A table of distances between all pairs of racks has 512 MB then."""
_Units = Annotated[int, Meta(ge=1, le=1000)]


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
        Positions, if given; else racks are placed in rows, as many as needed.
    per_row : int
        Racks in a row; 0: as many as make the floor about square.
    width, pitch : Fraction
        Metres from rack to rack in a row, and from row to row.
    units : int
        Of a rack.
    node_units : int
        Units that a node takes.
    unit_height, tray, slack : Fraction
        Metres: a unit, from the top of a rack to the tray, and the slack of every cable.
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
        """Return the first `count` racks; FormatError if there are fewer."""
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
        """Return the metres to the tray from the middle of the node that begins at `unit`, 1 the lowest."""
        middle = (unit - 1 + Fraction(self.node_units, 2)) * self.unit_height
        return self.units * self.unit_height + self.tray - middle


def rack_distances(racks: tuple[Rack, ...]) -> Int64Array:
    """Return the millimetres along the tray between racks, shape (racks, racks)."""
    x = np.array([round(rack.x * 1000) for rack in racks], dtype=np.int64)
    y = np.array([round(rack.y * 1000) for rack in racks], dtype=np.int64)
    found: Int64Array = np.abs(x[:, None] - x) + np.abs(y[:, None] - y)
    return found


class _Rack(Table, frozen=True):
    name: str
    x: Length
    y: Length


class _Floor(Table, frozen=True):
    racks_per_row: Count | None = None
    rack_pitch: Length | None = None
    row_pitch: Length | None = None
    tray: Length | None = None
    slack: Length | None = None


class _RackSize(Table, frozen=True):
    units: _Units | None = None
    unit_height: Length | None = None
    node_units: _Units | None = None


class _File(Table, frozen=True):
    floor: _Floor = _Floor()
    rack: _RackSize = _RackSize()
    racks: list[_Rack] = field(default_factory=list)


def load_floor(path: str | Path) -> Floor:
    """Read a floor: TOML with the tables ``[floor]``, ``[rack]`` and, for given racks, ``[[racks]]``.

    Raises
    ------
    FormatError
        If the file cannot be read or says something else.
    """
    with naming_file(path):
        return parse_floor(read_sheet(path, "floor"))


def parse_floor(text: str) -> Floor:
    """Parse a floor file; FormatError for invalid values."""
    file = read_toml(text, _File)
    names = {"racks_per_row": "per_row", "rack_pitch": "width", "row_pitch": "pitch"}
    values: dict[str, Any] = {
        names.get(key, key): metres(value) if isinstance(value, str) else value
        for key, value in (asdict(file.floor) | asdict(file.rack)).items()
        if value is not None
    }
    if 0 in (values.get("pitch"), values.get("width")):
        raise FormatError("floor: racks overlap; expected pitches above 0")
    if len(file.racks) > MAX_RACKS:
        raise FormatError(f"racks: expected tables [[racks]], at most {MAX_RACKS}")
    seen: set[str] = set()
    for number, rack in enumerate(file.racks):
        if check_line(rack.name, f"racks[{number}].name") in seen:
            raise FormatError(f"racks: {rack.name!r} is named twice")
        seen.add(rack.name)
    racks = tuple(Rack(rack.name, metres(rack.x), metres(rack.y)) for rack in file.racks)
    return Floor(racks, **values)
