"""The page on groups: what it quotes is printed; every figure of the page of figures is what is found."""

from __future__ import annotations

from fractions import Fraction

from tools.records import read_rows

from places import ROOT

TEXT = (ROOT / "docs/how-to/groups.md").read_text(encoding="utf-8")
ROWS = [(name.strip("`"), *rates) for name, *rates in read_rows("groups-figures", "Alone and together")]


def rate(text: str) -> Fraction:
    """The first figure of a cell, in bytes/s."""
    number = Fraction(text.split()[0].rstrip(";"))
    return number if " link" in text else number * 10**9


def exact(value: Fraction) -> str:
    return f"{value.numerator}/{value.denominator}"
