"""Values in third-party files: exact numbers, bounded counts, speeds and latencies in integral units."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from fractions import Fraction
from math import gcd, lcm, prod
from typing import Any

from treadle.errors import FormatError
from treadle.topologies.readers.imported import SourceFile
from treadle.topologies.topology import MAX_BANDWIDTH

MAX_IMPORTED_NODES = 2**16
"""Largest fabric made of a third-party file; a line of ten characters can name a million hosts."""
MAX_IMPORTED_LINKS = 2**18
"""Same as `MAX_IMPORTED_NODES`, for directed links."""

_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,24}(?:\.[0-9]{0,24})?|\.[0-9]{1,24})(?:[eE][+-]?[0-9]{1,2})?")
_PARTS = re.compile(r"((?:[^,\[]|\[[^\]]*\]|\[)*),")
"""A name with its brackets, up to a comma."""
_MIN_UNIT = 10**6
"""Bytes/s: common measures from here on lose at most a millionth when they are rounded."""
_MAX_LATENCY_NS = 2**53


def format_value(value: object) -> str:
    """Format a file's value for a message: quoted, short, on one line."""
    text = repr(str(value))
    return text if len(text) <= 50 else f"{text[:50]}..."


def unexpected(
    source: SourceFile, place: str, expected: str, value: object, line: int | None = None
) -> FormatError:
    """Return the error for a value at a place of a file that is not as expected."""
    return source.error(f"{place}: expected {expected}, found {format_value(value)}", line)


def check_import_size(source: SourceFile, *, nodes: int = 0, links: int = 0) -> None:
    """Reject a fabric that is larger than the limit for files, before it is made."""
    for count, most, what in ((nodes, MAX_IMPORTED_NODES, "nodes"), (links, MAX_IMPORTED_LINKS, "links")):
        if count > most:
            size = str(count) if count < 2**64 else f"about 2**{count.bit_length() - 1}"
            raise source.error(f"describes {size} {what}; at most {most} are read")


def number(source: SourceFile, place: str, value: object, line: int | None = None) -> Fraction:
    """Return a decimal number, exactly as written; FormatError that names `place` for anything else."""
    text = value if isinstance(value, str) else repr(value) if type(value) in (int, float) else ""
    if not _DECIMAL.fullmatch(text.strip()):
        raise unexpected(source, place, "a number", value, line)
    return Fraction(text.strip())


def integer(
    source: SourceFile, place: str, value: object, least: int, most: int, line: int | None = None
) -> int:
    """Return an integer from `least` to `most`; FormatError that names `place` for anything else."""
    found = number(source, place, value, line)
    if found.denominator != 1 or not least <= found <= most:
        raise unexpected(source, place, f"an integer from {least} to {most}", value, line)
    return int(found)


def integer_bandwidth(source: SourceFile, place: str, value: Fraction, line: int | None = None) -> int:
    """A bandwidth rounded down to whole bytes/s; FormatError for less than 1 or more than 2**50 of them."""
    if not 1 <= value <= MAX_BANDWIDTH:
        found = f"{float(value):g}" if abs(value) < 2**1000 else "far more"
        raise source.error(f"{place}: expected 1 to 2**50 bytes/s, found {found}", line)
    return int(value)


def integers_together(values: list[Fraction]) -> list[int]:
    """Speeds rounded down to whole bytes/s so that they keep their ratios where that costs next to nothing.

    23 and 46 microseconds are twice and once something; rounded each by itself, they have no common measure
    but 1, and an exact schedule needs as many trees as there are bytes in a second.
    """
    shares = lcm(*(value.denominator for value in values))
    unit = Fraction(gcd(*(int(value * shares) for value in values)), shares)
    if unit < _MIN_UNIT:
        return [int(value) for value in values]
    return [int(value / unit) * int(unit) for value in values]


def integer_latency(source: SourceFile, place: str, value: Fraction, line: int | None = None) -> int:
    """Return nanoseconds, rounded to whole ones; FormatError for less than none or for months."""
    if not 0 <= value <= _MAX_LATENCY_NS:
        raise source.error(f"{place}: expected 0 to 2**53 ns, found {float(value):g}", line)
    return round(value)


def expanded_hosts(source: SourceFile, place: str, text: str, line: int | None = None) -> list[str]:
    """Return the names of a hostlist: ``tux[0-3,12],rack[00-01]n[1-2]`` are eight of them.

    Slurm's and ClusterShell's notation. Zeros in front keep a number's width. All names together are counted
    before any is made.
    """
    in_brackets = sum(part.count(",") for part in re.findall(r"\[[^\[\]]*\]", text))
    check_import_size(source, nodes=text.count(",") - in_brackets)
    parts = [part.strip() for part in _PARTS.findall(text + ",")]
    if not all(parts):
        raise unexpected(source, place, "names with commas between", text, line)
    names: list[str] = []
    for part in parts:
        pieces = re.split(r"\[([^\[\]]*)\]", part)
        if any("[" in piece or "]" in piece for piece in pieces):
            raise source.error(f"{place}: brackets of {format_value(part)} do not match", line)
        ranges = f"{place}: expected rising ranges, found"
        spans = [number_spans(source, piece, f"{ranges} [{piece[:40]}]", line) for piece in pieces[1::2]]
        sizes = (sum(last - first + 1 for first, last, _ in choices) for choices in spans)
        check_import_size(source, nodes=len(names) + prod(sizes))
        grown = [pieces[0]]
        for choices, tail in zip(spans, pieces[2::2], strict=True):
            digits = [f"{k:0{width}d}" for first, last, width in choices for k in range(first, last + 1)]
            grown = [f"{head}{middle}{tail}" for head in grown for middle in digits]
        names += grown
    return names


def number_spans(
    source: SourceFile, text: str, message: str, line: int | None = None
) -> list[tuple[int, int, int]]:
    """Return the first, last and width of digits of each range of ``0-3,12``; FormatError with `message`."""
    spans = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,9})(?:-([0-9]{1,9}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or first > last:
            raise source.error(message, line)
        spans.append((first, last, len(match[1])))
    return spans


def missing_option(source: SourceFile, option: str, what: str) -> FormatError:
    """Return the error for a value that a file lacks, with the option that gives it."""
    return source.error(f"{what}; say it by --{option}")


def mapping(
    source: SourceFile, place: str, value: Any, known: Collection[str], needed: Iterable[str] = ()
) -> dict[str, Any]:
    """A mapping with all `needed` keys and no others than `known` ones; FormatError for anything else."""
    where = f"{place}: " if place else ""
    if not isinstance(value, dict):
        raise source.error(f"{where}expected a mapping, found {format_value(value)}")
    for key in value:
        if key not in known:
            names = ", ".join(known if isinstance(known, tuple) else sorted(known))
            raise source.error(f"{where}unknown key {format_value(key)}; known are {names}")
    for key in needed:
        if key not in value:
            raise source.error(f"{where}key {key!r} is missing")
    return value
