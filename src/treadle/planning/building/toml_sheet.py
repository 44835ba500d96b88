"""Small TOML files of people who build: tables of lengths, prices and counts, read with care."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from treadle.errors import FormatError
from treadle.input_files import read_input_text
from treadle.spelling import unknown

MAX_FILE_BYTES = 2**20
_MAX_LINE = 1000
"""Characters; a dotted key costs memory by the square of its parts."""
_LENGTH = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?(m|cm|mm)")
_MILLIMETRES = {"m": 1000, "cm": 10, "mm": 1}
MOST_METRES = 100_000
MOST_PRICE = 10**9


def read_tables(path: str | Path, what: str) -> dict[str, Any]:
    """The tables of a file.

    Raises
    ------
    FormatError
        If it cannot be read, is large, or is no TOML; `what` says which file it is.
    """
    source = str(path)
    try:
        text = read_input_text(path, MAX_FILE_BYTES, expected=f"the {what} as TOML")
        for number, line in enumerate(text.splitlines(), start=1):
            if len(line) > _MAX_LINE:
                raise FormatError(f"longer than {_MAX_LINE} characters", source=source, line=number)
        return tomllib.loads(text)
    except RecursionError:
        raise FormatError("not TOML that can be read: nested too deep", source=source) from None
    except FormatError:
        raise
    except ValueError as error:  # TOMLDecodeError is one; integers of very many digits are another
        raise FormatError(f"not TOML: {error}", source=source) from None


def check_known(table: Mapping[str, Any], place: str, known: set[str]) -> None:
    """FormatError for a key that means nothing."""
    for key in table:
        if key not in known:
            raise FormatError(unknown(f"{place}: key", str(key)[:60], sorted(known)))


def sub_table(tables: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A table of the file, empty where it has none."""
    found = tables.get(name, {})
    if not isinstance(found, dict):
        raise FormatError(f"{name}: expected a table [{name}]")
    return found


def metres(text: str, place: str) -> Fraction:
    """A length that carries a unit, in metres.

    Examples
    --------
    >>> metres("60cm", "width")
    Fraction(3, 5)
    """
    match = _LENGTH.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise FormatError(
            f"{place}: found {str(text)[:60]!r}, expected a length with a unit, as in 60cm or 2.4m"
        )
    found = Fraction(match[1]) * _MILLIMETRES[match[2]] / 1000
    if found > MOST_METRES:
        raise FormatError(f"{place}: {text} is more than {MOST_METRES} m")
    return found


def price(value: object, place: str) -> Fraction:
    """An amount of money: a number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_PRICE:
        raise FormatError(f"{place}: found {str(value)[:60]!r}, expected a number from 0 to 10**9")
    return Fraction(Decimal(repr(value)))


def whole(value: object, place: str, *, least: int = 1, most: int = 10**6) -> int:
    """A count."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise FormatError(
            f"{place}: found {str(value)[:60]!r}, expected a whole number from {least} to {most}"
        )
    return value


def line_of_text(value: object, place: str) -> str:
    """One line of printable text."""
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= 500:
        raise FormatError(f"{place}: expected one line of text")
    return value
