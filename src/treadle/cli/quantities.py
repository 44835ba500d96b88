"""Quantities as the command line reads and prints them; those with a unit are in `treadle.units`."""

from __future__ import annotations

from fractions import Fraction

from treadle.errors import FormatError
from treadle.units import format_bandwidth, parse_time_ns

_LONGEST = 9999
_UNITS = ("B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s")


def parse_seconds(text: str) -> float:
    """Seconds of a duration such as ``30s`` or ``5min``; FormatError otherwise, or for none at all."""
    nanoseconds = parse_time_ns(text)
    if not nanoseconds:
        raise FormatError(f"time {text!r}: expected more than nothing")
    return nanoseconds / 10**9


def parse_integers(text: str, what: str) -> tuple[int, ...]:
    """Integers of ``2,1,1``; FormatError otherwise."""
    try:
        return tuple(int(part) for part in text.split(",", 2**16))
    except ValueError:
        raise FormatError("expected integers with commas between, as in 2,1,1", source=what) from None


def counted(number: int, noun: str) -> str:
    """A number and a regular noun that agrees with it: ``1 switch``, ``2 switches``."""
    ending = "" if number == 1 else "es" if noun.endswith(("ch", "s", "x")) else "s"
    return f"{number} {noun}{ending}"


def exact_bandwidth(bytes_per_s: Fraction) -> str:
    """Bandwidth with the exact fraction where that is short: ``346.67 GB/s (1040/3)``."""
    text = format_bandwidth(bytes_per_s)
    _, unit = text.split()
    scaled = bytes_per_s / 1000 ** _UNITS.index(unit)
    if scaled.denominator == 1 or scaled.denominator > _LONGEST or round(scaled, 2) == scaled:
        return text
    return f"{text} ({scaled})"


def shortfall(algbw: Fraction, limit: Fraction) -> str:
    """The share by which a throughput misses a limit, never rounded to nothing.

    Examples
    --------
    >>> shortfall(Fraction(3), Fraction(4)), shortfall(Fraction(99999), Fraction(100000))
    ('25.00%', 'less than 0.01%')
    """
    share = float(1 - algbw / limit)
    return f"{share:.2%}" if share >= 1e-4 else "less than 0.01%"
