"""Printed values of the papers as data: a value per label, its citation, and why Treadle's differs."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from importlib.resources import files
from math import floor, log10
from typing import Any

from treadle.errors import FormatError

_NUMBER = re.compile(r"(~|<=|<|>|(?:up|\d+) to )?(\d+(?:\.\d+)?)(?:e([+-]?\d+))?(\+)?")
ROUGHLY = Fraction(1, 10)
"""Share by which a figure may be off what is printed with ~, and with "up to"."""
_BARELY = Fraction(1, 100)
"""Share by which a value may be below what is printed with a + at its end."""
_SPARE = Fraction(1, 100)
"""Tolerance on half a unit in the last printed place: 0.5005 is printed 0.500 or 0.501."""


@dataclass(frozen=True)
class PrintedFigure:
    """A value as printed in the paper.

    Parameters
    ----------
    text : str
        A number in the row's unit, with ``~``, ``<``, ``>``, ``up to`` or a ``+`` at its end where the paper
        is not more exact, or a range such as ``85 to 95``; anything else is compared word for word.
    why : str
        Why Treadle's value differs, or what is wrong with the printed one; "" if they agree.
    is_erratum : bool
        The paper contradicts itself or what can be proved.
    side : str
        The side on which `why` explains a difference: "below", "above", or "" for both.
    """

    text: str
    why: str = ""
    is_erratum: bool = False
    side: str = ""

    def reason(self, ours: Fraction | float | str | None) -> str:
        """Return why this value differs or is absent; "" if it agrees or is on the unexplained side."""
        if ours is None:
            return self.why
        if self.agrees(ours):
            return ""
        if self.side and not isinstance(ours, str) and self.value is not None:
            return self.why if (self.side == "below") == (Fraction(ours) < self.value) else ""
        return self.why

    @property
    def tolerance(self) -> Fraction:
        """Share of the printed number by which a value may differ; 0 where the digits decide."""
        match self._sign:
            case "~" | "up to":
                return ROUGHLY
            case "+":
                return _BARELY
        return Fraction(0)

    @property
    def agreement(self) -> str:
        """Verdict on a value that agrees, with the tolerance."""
        word = "same" if self._sign in ("", "~", "up to") else "holds"
        return f"{word} within {float(100 * self.tolerance):g}%" if self.tolerance else word

    @property
    def _sign(self) -> str:
        found = _NUMBER.fullmatch(self.text)
        return "" if found is None else (found[1] or found[4] or "").strip()

    @property
    def value(self) -> Fraction | None:
        """The number; None if it is none."""
        found = _NUMBER.fullmatch(self.text)
        return None if found is None else Fraction(found[2]) * Fraction(10) ** int(found[3] or 0)

    def agrees(self, ours: Fraction | float | str) -> bool:
        """Whether a figure is the printed one as far as that is exact."""
        found = _NUMBER.fullmatch(self.text)
        if found is None or isinstance(ours, str):
            return str(ours) == self.text
        number, value = Fraction(ours), self.value
        assert value is not None, "it is a number"
        match sign := self._sign:
            case "~" | "up to":
                return abs(number - value) <= self.tolerance * value
            case "<":
                return number < value
            case "<=":
                return number <= value
            case ">":
                return number > value
            case "+":
                return number >= value * (1 - self.tolerance)
            case _ if sign:
                return int(sign.split()[0]) <= number <= value
        places = len(found[2].partition(".")[2]) - int(found[3] or 0)
        unit = Fraction(1, 10) ** places
        return abs(number - value) <= unit / 2 * (1 + _SPARE)


@dataclass(frozen=True)
class PublishedFigure:
    """A table or figure as printed in the paper.

    Parameters
    ----------
    citation : str
    figures : mapping of str to PrintedFigure
        By the label of our row.
    remarks : tuple of str
        What has to be known to compare: variants, machines, errata.
    """

    citation: str
    figures: Mapping[str, PrintedFigure] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


@cache
def published_figures() -> Mapping[str, PublishedFigure]:
    """Return all printed tables and figures, by name."""
    text = (files("treadle.reproduction") / "data" / "printed.toml").read_text(encoding="utf-8")
    return {name: _exhibit(name, table) for name, table in tomllib.loads(text).items()}


def _exhibit(name: str, table: Mapping[str, Any]) -> PublishedFigure:
    unknown = table.keys() - {"citation", "figures", "why", "differs", "errata", "remarks"}
    if unknown:
        raise FormatError(f"printed.toml: {name}: unknown {', '.join(sorted(unknown))}")
    texts, whys, errata = (table.get(key, {}) for key in ("figures", "why", "errata"))
    nowhere = (whys.keys() | errata.keys()) - texts.keys()
    if nowhere:
        raise FormatError(f"printed.toml: {name}: no figure {', '.join(sorted(nowhere))}")
    differs = table.get("differs", "")
    figures = {}
    for label, text in texts.items():
        side, why = _sided(name, errata.get(label, whys.get(label, differs)))
        figures[label] = PrintedFigure(text, why, label in errata, side)
    return PublishedFigure(table["citation"], figures, tuple(table.get("remarks", ())))


def _sided(name: str, why: str | Mapping[str, str]) -> tuple[str, str]:
    """Return the side that a reason is for, and the reason."""
    if isinstance(why, str):
        return "", why
    if len(why) != 1 or not why.keys() <= {"below", "above"}:
        raise FormatError(f"printed.toml: {name}: expected a reason for below or above, not {', '.join(why)}")
    return next(iter(why.items()))


def rounded(value: Fraction | float, digits: int = 5) -> str:
    """Format a number with a given number of digits, as people write it."""
    number = float(value)
    if number == 0 or number != number:
        return "0" if number == 0 else "-"
    places = digits - 1 - floor(log10(abs(number)))
    if abs(number) < 1e-3:
        return f"{number:.{digits - 2}e}"
    text = f"{number:.{max(0, places)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
