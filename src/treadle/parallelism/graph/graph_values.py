"""Numbers, texts and tensors of files of graphs, checked as they are read."""

from __future__ import annotations

from typing import Any

from treadle.errors import FormatError
from treadle.parallelism.graph.compute_graph import TensorRef

MOST = 2**62
"""Largest number of a file: of elements, bytes, tokens."""
MOST_CHARACTERS = 2**28
"""Of a file: a language model of 32 layers, unfolded, has 4 million."""
_SHOWN = 40


def whole_number(value: object, *, most: int = MOST) -> int:
    """A count, size or place.

    Raises
    ------
    FormatError
        If it is no whole number of 0 to `most`.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        shown = "a number of many digits" if isinstance(value, int) and abs(value) > MOST else brief_of(value)
        raise FormatError(
            f"{shown} is no number of elements, bytes or place; expected a whole number"
            f"{'' if most == MOST else f' up to {most}'}"
        )
    return value


def text_of(value: object) -> str:
    """A text.

    Raises
    ------
    FormatError
        If it is none.
    """
    if not isinstance(value, str):
        raise FormatError(f"{brief_of(value)} is no text")
    return value


def table_of(value: Any, what: str) -> dict[str, Any]:
    """An object of JSON.

    Raises
    ------
    FormatError
        If it is none.
    """
    if not isinstance(value, dict):
        raise FormatError(f"malformed {what}: expected an object, found {brief_of(value)}")
    return value


def tensor_of(pair: Any) -> TensorRef:
    """A tensor: its node and slot."""
    node, slot = pair
    return TensorRef(whole_number(node), whole_number(slot))


def brief_of(value: object) -> str:
    """A value in a few characters, on one line."""
    if isinstance(value, int) and abs(value) > MOST:
        return "a number of many digits"
    if isinstance(value, str):
        return repr(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}...")
    if isinstance(value, list | dict):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    return repr(value)[:_SHOWN]
