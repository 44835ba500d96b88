"""Reprs of values that hold much: one line with the key figures, whatever the value's size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from dataclasses import fields
from enum import Enum
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from treadle.notebook import displayed
from treadle.units import format_bandwidth, format_size

MOST_CHARACTERS = 200
"""Longest repr."""
_MOST_WORD = 40
_RARE = {"is_late", "is_embedded"}
"""What is said only where it holds."""
_Value = TypeVar("_Value", bound=type)


def brief(*names: str) -> Callable[[_Value], _Value]:
    """Decorator of a dataclass, above `dataclass`: its repr is its name and these figures, on one line.

    Notebooks and rich show the same figures (`treadle.notebook.displayed`).

    Parameters
    ----------
    *names : str
        Fields or properties, also of fields (``plan.topology``), the most telling first; none: the fields.
        Those that are None or empty are left out, and the last ones where the line gets too long.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @brief("kind", "algbw", "is_optimal", "rows")
    ... @dataclass
    ... class Found:
    ...     kind: str
    ...     algbw: int
    ...     is_optimal: bool
    ...     rows: list
    >>> Found("ring", 25 * 10**9, True, [1] * 10**6)
    <Found ring, 25 GB/s algbw, optimal, 1000000 rows>
    """

    def decorate(kind: _Value) -> _Value:
        def repr_items(self: Any) -> list[str]:
            own = names or tuple(field.name for field in fields(self))
            words = (format_field(name.rpartition(".")[2], _found(self, name)) for name in own)
            return [word for word in words if word]

        def __repr__(self: Any) -> str:  # noqa: N807  (it becomes the class's)
            return _fitted(type(self).__name__, repr_items(self))

        type.__setattr__(kind, "__repr__", __repr__)
        return displayed(repr_items)(kind)

    return decorate


def _found(value: Any, path: str) -> Any:
    """What attributes of attributes lead to; None where one of them is None."""
    for name in path.split("."):
        value = None if value is None else getattr(value, name)
    return value


def _fitted(name: str, words: list[str]) -> str:
    line = f"<{name}"
    for place, word in enumerate(words):
        longer = f"{line}{',' if place else ''} {word}"
        if len(longer) > MOST_CHARACTERS - 5:
            return f"{line}, ...>"
        line = longer
    return f"{line}>"


def format_field(name: str, value: Any) -> str:
    """A field in words: its value with a unit, or how many there are; "" for what says nothing."""
    noun = name.removeprefix("is_").replace("_", " ")
    if isinstance(value, bool | np.bool_):
        return noun if value else f"not {noun}" if name not in _RARE else ""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, str):
        text = " ".join(value.split())
        return text if len(text) <= _MOST_WORD else f"{text[:_MOST_WORD]}..."
    if isinstance(value, int | float | Fraction | np.number):
        return _number(name, noun, value)
    if isinstance(value, Mapping) and name == "seconds":
        return f"{value['total']:.3g} CPU s" if "total" in value else ""
    if isinstance(value, np.ndarray):
        return f"{noun} {value.shape}" if value.ndim != 1 else _counted(len(value), noun)
    if type(value).__name__ == "Topology":
        return format_field(name, value.name)
    if hasattr(value, "kind") and hasattr(value, "n_ranks"):
        return f"{value.kind} of {value.n_ranks} ranks"
    if value is None or callable(value):
        return ""
    if isinstance(value, Sized):
        return _counted(len(value), noun) if len(value) else ""
    return type(value).__name__


def _number(name: str, noun: str, value: Any) -> str:
    if not isinstance(value, int | Fraction) and not np.isfinite(value):
        return f"{noun} {value}"
    exact = value if isinstance(value, int | Fraction) else Fraction(float(value))
    if name.endswith("bytes_per_s") or "algbw" in name or name in ("rate", "upper"):
        return f"{format_bandwidth(Fraction(exact))} {noun.removesuffix(' bytes per s')}"
    if name.startswith("n_"):
        return _counted(int(exact), noun.removeprefix("n ")) if exact else ""
    if name.endswith("_bytes"):
        return f"{format_size(int(exact))} {noun.removesuffix(' bytes')}"
    if name == "loss":
        return f"{float(value):.1%} {noun}"
    if name == "seconds":
        return f"{float(value):.3g} s"
    if name.endswith("_s"):
        return f"{float(value):.3g} s {noun.removesuffix(' s')}"
    return (
        f"{noun} {value}" if isinstance(value, int | Fraction | np.integer) else f"{noun} {float(value):.4g}"
    )


def _counted(number: int, noun: str) -> str:
    """How many there are of a plural: ``1 row``."""
    one = f"{noun.removesuffix('ies')}y" if noun.endswith("ies") else noun.removesuffix("s")
    return f"{number} {one if number == 1 else noun}"
