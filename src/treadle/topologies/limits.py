"""Checks of the catalogue's arguments: they run before anything is built."""

from __future__ import annotations

from treadle.errors import TopologyError

MAX_NODES = 2**21
"""Largest fabric that the catalogue builds, in nodes."""

MAX_LINKS = 2**23
"""Largest fabric that the catalogue builds, in directed links."""


def check_count(function: str, key: str, value: int, *, least: int = 1, most: int = MAX_NODES) -> int:
    """Return `value` if it is an integer from `least` to `most`; else TopologyError naming `key`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TopologyError(f"{function}: {key} must be an integer, found {value!r}")
    if value < least:
        raise TopologyError(f"{function}: {key} must be at least {least}, found {_shown(value)}")
    if value > most:
        raise TopologyError(f"{function}: {key} must be at most {most}, found {_shown(value)}")
    return value


def check_size(function: str, nodes: int, links: int) -> None:
    """Reject a fabric that would not fit into memory comfortably, before it is built."""
    for what, count, limit in (("nodes", nodes, MAX_NODES), ("links", links, MAX_LINKS)):
        if count > limit:
            raise TopologyError(
                f"{function}: this would be {_shown(count)} {what}, the catalogue builds at most {limit}"
            )


def _shown(value: int) -> str:
    """Decimal digits, or the magnitude of a number with very many of them."""
    return (
        str(value) if abs(value) < 2**64 else f"about {'-' if value < 0 else ''}2**{value.bit_length() - 1}"
    )
