"""Values of a plan's manifest, and of other JSON files, checked as they are taken out of the parsed JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from treadle.errors import FormatError
from treadle.typed_files import read_value

_T = TypeVar("_T")
Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1, description="an integer")]
Wholes = tuple[Whole, ...]
_FRACTION_PATTERN = r"\A[0-9]{1,1000}/(?=[0-9]{1,1000}\Z)0*[1-9][0-9]*\Z"
FractionText = Annotated[str, Meta(pattern=_FRACTION_PATTERN, description='a fraction "p/q"')]


def indented(value: object, depth: int = 0) -> str:
    """Return ``json.dumps(value, indent=1, allow_nan=False)``, for lists of integers many times as fast."""
    inner, outer = "\n" + " " * (depth + 1), "\n" + " " * depth
    if isinstance(value, dict) and value:
        rows = (f"{json.dumps(key)}: {indented(item, depth + 1)}" for key, item in value.items())
        return f"{{{inner}{f',{inner}'.join(rows)}{outer}}}"
    if isinstance(value, list | tuple) and value:
        are_integers = set(map(type, value)) == {int}
        items = map(str, value) if are_integers else (indented(item, depth + 1) for item in value)
        return f"[{inner}{f',{inner}'.join(items)}{outer}]"
    return json.dumps(value, allow_nan=False)


def read_table(value: object, kind: type[_T], place: str) -> _T:
    """Read a table; FormatErrors give the place without numbers: "entries: routes: expected an integer"."""
    try:
        return read_value(value, kind)
    except FormatError as error:
        where, _, what = str(error).partition(": ")
        where = re.sub(r"\[\d+\]", "", re.sub(r"\[\d+\]\.", ": ", where if where != "file" else place))
        what = re.sub(r"(expected [^:]*), found .*", r"\1", what, flags=re.DOTALL)
        what = re.sub(r'unknown key "(.*?)"?; known .*', r"key '\1' is unknown", what, flags=re.DOTALL)
        raise FormatError(f"{where}: {what}") from None


def read_object(
    value: Any, place: str, required: Collection[str], optional: Collection[str] = ()
) -> Mapping[str, Any]:
    """Read an object with the required keys, possibly some of the optional ones, and no others."""
    if not isinstance(value, dict):
        raise FormatError(f"{place}: expected an object")
    for key in sorted((set(required) ^ set(value)).difference(optional)):
        raise FormatError(f"{place}: key {key[:100]!r} is {'missing' if key in required else 'unknown'}")
    return value


def read_list(value: Any, place: str) -> list[Any]:
    """Read a list."""
    if not isinstance(value, list):
        raise FormatError(f"{place}: expected a list")
    return value


def read_integer(value: Any, place: str) -> int:
    """Read an integer of 64 bits."""
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise FormatError(f"{place}: expected an integer")
    return value


def read_wholes(value: Any, place: str) -> tuple[int, ...]:
    """Read a list of integers."""
    items = read_list(value, place)
    if items and set(map(type, items)) == {int} and -(2**63) <= min(items) <= max(items) < 2**63:
        return tuple(items)
    return tuple(read_integer(item, place) for item in items)


def read_string(value: Any, place: str) -> str:
    """Read a string."""
    if not isinstance(value, str):
        raise FormatError(f"{place}: expected a string")
    return value


def read_fraction(value: Any, place: str) -> Fraction:
    """Read a fraction, written "p/q"."""
    if not isinstance(value, str) or not re.match(_FRACTION_PATTERN, value):
        raise FormatError(f'{place}: expected a fraction "p/q"')
    return Fraction(value)


def format_fraction(value: Fraction) -> str:
    """Return a fraction as `read_fraction` reads it."""
    return f"{value.numerator}/{value.denominator}"


def read_optional(value: Any, read: Callable[[Any, str], _T], place: str) -> _T | None:
    """Return None for None, or else the result of `read`."""
    return None if value is None else read(value, place)
