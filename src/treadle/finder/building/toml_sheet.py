"""Small TOML files of people who build: lengths, prices and counts."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from treadle.errors import FormatError
from treadle.input_files import read_input_string

MAX_FILE_BYTES = 2**20
MOST_METRES = 100_000
_LENGTH = r"^([0-9]{1,9}(?:\.[0-9]{1,6})?) ?(m|cm|mm)\Z"
_MILLIMETRES = {"m": 1000, "cm": 10, "mm": 1}

Length = Annotated[str, Meta(pattern=_LENGTH, description="a length with a unit, as in 60cm or 2.4m")]
Count = Annotated[int, Meta(ge=1, le=10**6)]
_PRICE = Meta(ge=0, le=10**9, description="a number from 0 to 10**9")
Price = Annotated[int, _PRICE] | Annotated[float, _PRICE]


def read_sheet(path: str | Path, what: str) -> str:
    """Read a file; FormatError, which calls the file `what`, if that fails."""
    return read_input_string(path, MAX_FILE_BYTES, expected=f"the {what} as TOML")


def metres(length: str) -> Fraction:
    """Convert a `Length` to metres.

    Examples
    --------
    >>> metres("60cm")
    Fraction(3, 5)
    """
    number, unit = re.findall(_LENGTH, length)[0]
    found = Fraction(number) * _MILLIMETRES[unit] / 1000
    if found > MOST_METRES:
        raise FormatError(f"{length} is more than {MOST_METRES} m")
    return found


def exact(price: Price) -> Fraction:
    """Convert a `Price` exactly: 12.35 is 247/20."""
    return Fraction(Decimal(repr(price)))


def check_line(text: str, place: str) -> str:
    """Check that a string is one printable line; FormatError for any other."""
    if not text.isprintable() or not 0 < len(text) <= 500:
        raise FormatError(f"{place}: expected a string of one line")
    return text
