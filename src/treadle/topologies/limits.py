"""Checks of the catalogue's arguments: they run before anything is built."""

from __future__ import annotations

from treadle.errors import TopologyError

MAX_NODES = 2**21
"""Largest fabric that the catalogue builds, in nodes."""

MAX_LINKS = 2**23
"""Largest fabric that the catalogue builds, in directed links."""


def check_count(function: str, key: str, *values: int, least: int = 1, most: int = MAX_NODES) -> None:
    """Raise TopologyError, which names `key`, unless all values are integers from `least` to `most`."""
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool):
            raise TopologyError(f"{function}: {key} must be an integer, found {value!r}")
        if value < least:
            raise TopologyError(f"{function}: {key} must be at least {least}, found {_shown(value)}")
        if value > most:
            raise TopologyError(f"{function}: {key} must be at most {most}, found {_shown(value)}")


def check_counts(function: str, *, least: int = 1, **values: int) -> None:
    """Apply `check_count` to several arguments by their names."""
    for key, value in values.items():
        check_count(function, key, value, least=least)


def check_size(function: str, nodes: int, links: int) -> None:
    """Reject a fabric that would not fit into memory comfortably, before it is built."""
    for what, count, most in (("nodes", nodes, MAX_NODES), ("links", links, MAX_LINKS)):
        if count > most:
            size = f"this would be {_shown(count)} {what}"
            raise TopologyError(f"{function}: {size}, the catalogue builds at most {most}")


def parse_numbers(function: str, key: str, text: str, separator: str) -> tuple[int, ...]:
    """Return the numbers, of at most seven digits, between separators; TopologyError that names `key`."""
    words = text.split(separator) if isinstance(text, str) else []
    if not words or not all(word.isascii() and word.isdigit() and len(word) <= 7 for word in words):
        expected = f"must be numbers joined by {separator!r} in quotes"
        raise TopologyError(f"{function}: {key} {expected}, found {str(text)[:40]!r}")
    return tuple(map(int, words))


def _shown(value: int) -> str:
    """Return decimal digits, or the magnitude of a number with very many of them."""
    return (
        str(value) if abs(value) < 2**64 else f"about {'-' if value < 0 else ''}2**{value.bit_length() - 1}"
    )
