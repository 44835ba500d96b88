"""Quantities as users type them: a number with its unit. Bare numbers are refused."""

from __future__ import annotations

import re
from fractions import Fraction

from treadle.errors import FormatError

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")
_SIZES = {"B": 0, "K": 1, "KB": 1, "KIB": 1, "M": 2, "MB": 2, "MIB": 2, "G": 3, "GB": 3, "GIB": 3}
_TIMES = {"us": Fraction(1, 10**6), "ms": Fraction(1, 1000), "s": Fraction(1), "min": Fraction(60)}
MAX_SIZE = 2**40
MAX_SIZES = 64


def parse_size(text: str) -> int:
    """Bytes of a size such as ``64K``, ``1.5MB`` or ``512B``; units are powers of 1024.

    Raises
    ------
    FormatError
        Without a unit, with an unknown one, or if the size is no whole number of bytes from 1 to 2**40.
    """
    number, unit = _split(text, "size", "B, K, M or G, as in 64K or 512B")
    power = _SIZES.get(unit.upper())
    if power is None:
        raise FormatError(f"unit {unit!r} is unknown; sizes take B, K, M or G", source=f"size {text!r}")
    size = number * 1024**power
    if size.denominator != 1 or not 1 <= size <= MAX_SIZE:
        raise FormatError("expected a whole number of bytes from 1B to 1024G", source=f"size {text!r}")
    return int(size)


def parse_sizes(text: str) -> tuple[int, ...]:
    """Sizes of ``1K``, ``1K,64K`` or ``1K..64M`` (each twice the last, both ends included).

    Raises
    ------
    FormatError
    """
    first, dots, last = text.partition("..")
    if not dots:
        sizes = tuple(parse_size(part) for part in text.split(","))
    else:
        low, high = parse_size(first), parse_size(last)
        if low > high:
            raise FormatError("the range falls; expected LOW..HIGH", source=f"size {text!r}")
        steps = (high // low).bit_length()
        sizes = tuple(low << step for step in range(steps))
        if sizes[-1] != high:
            sizes = (*sizes, high)
    if len(sizes) > MAX_SIZES:
        raise FormatError(f"at most {MAX_SIZES} sizes, found {len(sizes)}", source=f"size {text[:40]!r}")
    return sizes


def parse_seconds(text: str) -> float:
    """Seconds of a duration such as ``30s``, ``500ms`` or ``5min``; FormatError otherwise."""
    number, unit = _split(text, "time", "us, ms, s or min, as in 30s")
    scale = _TIMES.get(unit)
    if scale is None:
        raise FormatError(f"unit {unit!r} is unknown; times take us, ms, s or min", source=f"time {text!r}")
    if number == 0:
        raise FormatError("expected more than nothing", source=f"time {text!r}")
    return float(number * scale)


def parse_integers(text: str, what: str) -> tuple[int, ...]:
    """Integers of ``2,1,1``; FormatError otherwise."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise FormatError("expected integers with commas between, as in 2,1,1", source=what) from None


def format_size(size: int) -> str:
    """A size in the largest unit that divides it: 65536 is ``64K``."""
    for power, unit in ((3, "G"), (2, "M"), (1, "K")):
        if size and size % 1024**power == 0:
            return f"{size // 1024**power}{unit}"
    return f"{size}B"


def format_bandwidth(bytes_per_s: Fraction) -> str:
    """Bandwidth in GB/s, with the exact fraction where that is short: ``346.67 GB/s (1040/3)``."""
    giga = bytes_per_s / 10**9
    decimal = f"{float(giga):.6g} GB/s"
    if giga.denominator == 1 or giga.denominator > 9999 or float(f"{float(giga):.6g}") == giga:
        return decimal
    return f"{float(giga):.2f} GB/s ({giga})"


def _split(text: str, what: str, units: str) -> tuple[Fraction, str]:
    match = _NUMBER.fullmatch(text.strip())
    if match is None or len(text) > 40:
        raise FormatError(f"expected a number and a unit ({units})", source=f"{what} {text[:40]!r}")
    return Fraction(match[1]), match[2]
