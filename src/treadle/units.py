"""Quantities that people type: bandwidths, sizes and times, always with a unit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType

from treadle.errors import FormatError

_MAX_TEXT = 40
_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-zµμ/]*)\s*")
_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}


_BANDWIDTHS: Mapping[str, Fraction] = MappingProxyType(
    {
        prefix + spelling: Fraction(factor, bits)
        for prefix, factor in {**_DECIMAL, **_BINARY}.items()
        for spelling, bits in (("B/s", 1), ("bit/s", 8), ("b/s", 8), ("bps", 8))
    }
)
_SIZES: Mapping[str, Fraction] = MappingProxyType(
    {
        spelling: Fraction(1024**power)
        for power, prefix in enumerate("KMGTP", start=1)
        # lower case as well: a size has no bits or milli-bytes to confuse it with
        for spelling in (prefix, f"{prefix}B", f"{prefix}iB", prefix.lower(), f"{prefix.lower()}B")
    }
    | {"B": Fraction(1)}
)
_DECIMAL_SIZES: Mapping[str, Fraction] = MappingProxyType(
    {
        prefix + ending: Fraction(factor)
        for prefix, factor in {**_DECIMAL, **_BINARY}.items()
        for ending in ("B", "")
        if prefix + ending
    }
)
_TIMES: Mapping[str, Fraction] = MappingProxyType(
    {
        "ns": Fraction(1),
        "us": Fraction(10**3),
        "µs": Fraction(10**3),  # the micro sign
        "μs": Fraction(10**3),  # the Greek letter
        "ms": Fraction(10**6),
        "s": Fraction(10**9),
        "min": Fraction(60 * 10**9),
        "h": Fraction(3600 * 10**9),
    }
)


def _parse(text: str, units: Mapping[str, Fraction], what: str, base: str, example: str) -> int:
    """Return the quantity in integral base units; raise FormatError, with an `example`, for anything else."""
    shown = text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "..."
    match = _NUMBER.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None:
        raise FormatError(f"{what} {shown!r}: expected a number with a unit, such as {example}")
    number, unit = match.groups()
    if not unit:
        raise FormatError(f"{what} {shown!r} has no unit; write for instance {example}")
    if unit not in units:
        raise FormatError(f"{what} {shown!r}: unknown unit {unit!r}; write for instance {example}")
    value = Fraction(number) * units[unit]
    if value.denominator != 1:
        raise FormatError(f"{what} {shown!r}: expected an integer number of {base}")
    if value >= 2**63:
        raise FormatError(f"{what} {shown!r} is too large; expected less than 2**63 {base}")
    return value.numerator


def parse_bandwidth(text: str) -> int:
    """Read a bandwidth such as ``25GB/s`` or ``400Gbit/s``.

    Prefixes k, M, G, T, P are powers of 1000, Ki to Pi powers of 1024; ``B`` is a byte, ``bit``, ``b`` and
    ``bps`` are bits.

    Parameters
    ----------
    text : str
        Decimal number and unit.

    Returns
    -------
    int
        Bytes/s.

    Raises
    ------
    FormatError
        Without a unit, with an unknown one, or if the value is not an integer in bytes/s.

    Examples
    --------
    >>> parse_bandwidth("400Gbit/s"), parse_bandwidth("24.3 GB/s")
    (50000000000, 24300000000)
    """
    return _parse(text, _BANDWIDTHS, "bandwidth", "bytes/s", "25GB/s or 400Gbit/s")


def parse_size(text: str) -> int:
    """Read a buffer size such as ``64MB``; K, M, G, T, P are powers of 1024, as in nccl-tests.

    Parameters
    ----------
    text : str
        Decimal number and unit: ``B``, ``K``, ``KB`` or ``KiB``, and so on.

    Returns
    -------
    int
        Bytes.

    Raises
    ------
    FormatError
        Without a unit, with an unknown one, or if the value is not an integer in bytes.

    Examples
    --------
    >>> parse_size("1K"), parse_size("1.5MB")
    (1024, 1572864)
    """
    return _parse(text, _SIZES, "size", "bytes", "64MB or 512B")


def parse_decimal_size(text: str) -> int:
    """Read a size whose k, M, G are powers of 1000, as in costs of microseconds per MB; Ki, Mi, Gi of 1024.

    Raises
    ------
    FormatError
        As `parse_size`.

    Examples
    --------
    >>> parse_decimal_size("1MB"), parse_decimal_size("1MiB"), parse_decimal_size("512B")
    (1000000, 1048576, 512)
    """
    return _parse(text, _DECIMAL_SIZES, "size", "bytes", "1MB or 32KiB")


def parse_time_ns(text: str) -> int:
    """Read a duration such as ``10us``, ``1.5ms``, ``30s`` or ``2min``.

    Parameters
    ----------
    text : str
        Decimal number and unit.

    Returns
    -------
    int
        Nanoseconds.

    Raises
    ------
    FormatError
        Without a unit, with an unknown one, or if the value is not an integer in nanoseconds.

    Examples
    --------
    >>> parse_time_ns("10us")
    10000
    """
    return _parse(text, _TIMES, "time", "nanoseconds", "10us or 30s")


def _decimal(value: Fraction, digits: int) -> str:
    """Round a value half to even to at most `digits` decimals, without trailing zeros."""
    scaled: int = round(abs(value) * 10**digits)
    integer, rest = divmod(scaled, 10**digits)
    text = f"{integer}.{rest:0{digits}d}".rstrip("0").rstrip(".")
    return f"-{text}" if value < 0 and scaled else text


def format_size(size: int) -> str:
    """Write a size in bytes with the largest unit that it reaches (powers of 1024), at most two decimals.

    Examples
    --------
    >>> format_size(64 * 2**20), format_size(1536), format_size(7)
    ('64MB', '1.5KB', '7B')
    """
    value, prefix = _scaled(Fraction(size), 1024, "KMGTP")
    return f"{_decimal(value, 2)}{prefix}B"


def format_bandwidth(bandwidth: int | Fraction) -> str:
    """Write a bandwidth in bytes/s with the largest unit that it reaches (powers of 1000), in two decimals.

    Examples
    --------
    >>> format_bandwidth(25 * 10**9), format_bandwidth(Fraction(1040 * 10**9, 3))
    ('25 GB/s', '346.67 GB/s')
    """
    return _bandwidth(bandwidth, 2)


def format_link_bandwidth(bandwidth: int) -> str:
    """Write the bandwidth of a link with all its digits: `parse_bandwidth` reads the same bytes/s.

    Examples
    --------
    >>> format_link_bandwidth(3_125_000_000), format_link_bandwidth(25 * 10**9 // 3)
    ('3.125 GB/s', '8.333333333 GB/s')
    """
    return _bandwidth(bandwidth, 15)


def bandwidth_unit(text: str) -> Fraction:
    """Return the bytes/s of a unit of bandwidths, such as ``GB/s``, ``Gbit/s`` or ``GiB/s``.

    Raises
    ------
    FormatError
        If the unit is unknown.

    Examples
    --------
    >>> bandwidth_unit("Gbit/s")
    Fraction(125000000, 1)
    """
    unit = text.strip()
    if unit not in _BANDWIDTHS:
        raise FormatError(f"unit {unit[:_MAX_TEXT]!r}: expected one such as GB/s, Gbit/s, MB/s or GiB/s")
    return _BANDWIDTHS[unit]


def format_bandwidth_in(bandwidth: int | Fraction, unit: str, *, digits: int = 2) -> str:
    """Write a bandwidth in bytes/s in a given unit; one that would be rounded to nothing has three digits.

    Examples
    --------
    >>> format_bandwidth_in(25 * 10**9, "Gbit/s"), format_bandwidth_in(1, "GB/s")
    ('200 Gbit/s', '1e-09 GB/s')
    """
    value = Fraction(bandwidth) / bandwidth_unit(unit)
    text = _decimal(value, digits)
    return f"{f'{float(value):.3g}' if value and text in ('0', '-0') else text} {unit}"


def _bandwidth(bandwidth: int | Fraction, digits: int) -> str:
    value, prefix = _scaled(Fraction(bandwidth), 1000, "kMGTP")
    return f"{_decimal(value, digits)} {prefix}B/s"


def _scaled(value: Fraction, base: int, prefixes: str) -> tuple[Fraction, str]:
    """Return a value in the largest unit that it reaches, and the unit's prefix."""
    prefix = ""
    for larger in prefixes:
        if abs(value) < base:
            break
        value, prefix = value / base, larger
    return value, prefix


def format_fraction(share: Fraction) -> str:
    """Write a share in percent, never rounded to nothing.

    Examples
    --------
    >>> format_fraction(Fraction(1, 8)), format_fraction(Fraction(1, 10**6)), format_fraction(Fraction(0))
    ('12.50%', 'less than 0.01%', 'nothing')
    """
    if not share:
        return "nothing"
    return "less than 0.01%" if share < Fraction(1, 10**4) else f"{float(share):.2%}"


def format_seconds(seconds: float) -> str:
    """Write a time in three digits, in the unit that fits.

    Examples
    --------
    >>> format_seconds(1.5), format_seconds(0.0012345), format_seconds(0.0)
    ('1.50 s', '1.23 ms', '0')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            value = seconds / scale
            return f"{value:.{max(0, 3 - len(str(int(value))))}f} {unit}"
    return "0" if seconds < 5e-10 else f"{seconds * 1e6:.3f} us"
