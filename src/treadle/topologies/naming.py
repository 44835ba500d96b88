"""Names: the expression that makes a catalogue fabric, and what fits in a line of a report."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any
from unicodedata import category

MAX_NAME = 1000
"""Longest name, in characters: an expression of more than that is cut, and then names no fabric."""


def as_name(text: str) -> str:
    """Return an expression as a name: whole where it may be, else its beginning.

    Examples
    --------
    >>> as_name("ring(4)")
    'ring(4)'
    """
    return text if len(text) <= MAX_NAME else f"{text[:MAX_NAME]}..."


def label(function: str, *words: object) -> str:
    """Return the call of a transform as a name."""
    return as_name(f"{function}({', '.join(map(str, words))})")


def expression(function: str, *arguments: int | str, **changed: tuple[int, int]) -> str:
    """Return the catalogue expression for a fabric's name.

    Parameters
    ----------
    function : str
    *arguments : int
        Positional arguments, always shown.
    **changed : (value, default)
        Keyword arguments, shown where they differ; bandwidths and latencies with their unit.

    Examples
    --------
    >>> expression("ring", 4, bandwidth=(5, 1), latency=(0, 0))
    'ring(4, bandwidth="5B/s")'
    """
    words = [str(argument) for argument in arguments]
    for key, (value, default) in changed.items():
        if value != default:
            unit = "B/s" if key.endswith("bandwidth") else "ns" if key == "latency" else ""
            words.append(f'{key}="{value}{unit}"' if unit else f"{key}={value}")
    return f"{function}({', '.join(words)})"


def call_expression(function: Callable[..., Any], arguments: Mapping[str, Any]) -> str:
    """`expression` of a call with these arguments by name; others than those of the function do not count."""
    parameters = inspect.signature(function).parameters.values()
    places = [arguments[one.name] for one in parameters if one.default is one.empty]
    changed = {
        one.name: (arguments[one.name], one.default) for one in parameters if one.default is not one.empty
    }
    return expression(function.__name__, *places, **changed)


_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Marks that change the direction of writing: a name with them may look like another one."""


def is_one_line(text: str) -> bool:
    """Whether a name fits in a line: no line breaks, control characters or marks of direction.

    Examples
    --------
    >>> is_one_line("gpu 0"), is_one_line("gpu\\n0")
    (True, False)
    """
    return text.isprintable() or not any(
        category(letter) in {"Cc", "Zl", "Zp"} or letter in _DIRECTIONS for letter in text
    )
