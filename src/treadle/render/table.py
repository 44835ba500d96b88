"""Tables as lines that fit a width; no cell is ever truncated.

Columns that say least are left out first, and named below the table. Where what has to stay is still too
wide, the widest column of words wraps, between words and never inside a number; where that is not enough,
each row becomes a few lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

_GAP = 2
_LEAST_WORDS = 12
"""Narrowest column of words."""
_WORDS = re.compile(r"[A-Za-z0-9.%]+[^A-Za-z0-9.%]*|[^A-Za-z0-9.%]+")
"""Between two of these a cell may wrap."""


@dataclass(frozen=True)
class Table:
    """Rows of cells under headings.

    Parameters
    ----------
    headings : sequence of str
        A heading may have several lines.
    rows : sequence of sequences of str
        As many cells as headings.
    left : int
        Number of leading columns that are words, aligned left; the others are aligned right.
    least : sequence of str
        Headings of columns that may be left out, first those that say least.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    least: Sequence[str] = ()

    def lines(self, width: int | None = None) -> list[str]:
        """The table as text.

        Parameters
        ----------
        width : int, optional
            Cells of a line of the terminal; None: any number.
        """
        shown, absent = self, list[str]()
        for heading in self.least:
            if width is None or shown.width <= width:
                break
            shown = shown._without(heading)
            absent.append(_in_one_line(heading))
        below = []
        if width is not None and absent:
            below = wrapped(f"(not shown for lack of width: {', '.join(absent)}; --json has them)", width)
        if width is None or shown.width <= width:
            return [*shown._aligned(), *below]
        return [*(shown._folded(width) or shown._stacked(width)), *below]

    @property
    def width(self) -> int:
        """Cells of its longest line."""
        widths = self._widths()
        return sum(widths) + _GAP * (len(widths) - 1)

    def _widths(self) -> list[int]:
        cells = zip(self.headings, *self.rows, strict=True)
        return [max(width_of(line) for cell in column for line in cell.split("\n")) for column in cells]

    def _without(self, heading: str) -> Table:
        place = list(self.headings).index(heading)
        rows = [[*row[:place], *row[place + 1 :]] for row in self.rows]
        headings = [*self.headings[:place], *self.headings[place + 1 :]]
        return replace(self, headings=headings, rows=rows, left=self.left - (place < self.left))

    def _aligned(self) -> list[str]:
        widths, lines = self._widths(), []
        for row in (self.headings, *self.rows):
            cells = [cell.split("\n") for cell in row]
            for parts in zip_longest(*cells, fillvalue=""):
                padded = []
                for place, (part, width) in enumerate(zip(parts, widths, strict=True)):
                    blanks = " " * (width - width_of(part))
                    padded.append(part + blanks if place < self.left else blanks + part)
                lines.append((" " * _GAP).join(padded).rstrip())
        return lines

    def _folded(self, width: int) -> list[str] | None:
        """Return the table with its widest column of words wrapped; None if that is not enough."""
        widths = self._widths()[: self.left]
        if not widths:
            return None
        place = widths.index(max(widths))
        narrowed = widths[place] - (self.width - width)
        if narrowed < _LEAST_WORDS:
            return None
        rows = [[*row[:place], fold(row[place], narrowed), *row[place + 1 :]] for row in self.rows]
        table = replace(self, rows=rows)
        return table._aligned() if table.width <= width else None

    def _stacked(self, width: int) -> list[str]:
        """Heading and cell on a line each, rows parted by an empty one."""
        names = [_in_one_line(heading) for heading in self.headings]
        label = max(map(width_of, names), default=0)
        lines: list[str] = []
        for row in self.rows:
            lines += [""] * bool(lines)
            for name, cell in zip(names, row, strict=True):
                if cell:
                    lines += wrapped(f"{name:<{label}}  {_in_one_line(cell)}", width, indent=label + _GAP)
        return lines


def _in_one_line(heading: str) -> str:
    return " ".join(heading.split())


def fold(text: str, width: int) -> str:
    """Wrap a cell to a width, which only a single word or number may exceed."""
    lines = [""]
    for word in _WORDS.findall(text):
        if lines[-1] and width_of((lines[-1] + word).rstrip()) > width:
            lines.append("")
        lines[-1] += word
    return "\n".join(line.strip() for line in lines)


def wrapped(text: str, width: int, *, indent: int | None = None) -> list[str]:
    """Wrap a line to a width at blanks; later lines are indented.

    Parameters
    ----------
    text : str
    width : int
    indent : int, optional
        Default: as the words after a label and several blanks.

    Examples
    --------
    >>> wrapped("note    one two three", 16)
    ['note    one two', '        three']
    """
    if width_of(text) <= width:
        return [text]
    if indent is None:
        found = re.match(r"\s*\S.*?\s{2,}|\s+", text)
        indent = len(found[0]) if found and len(found[0]) <= width // 2 else 0
    head, lines = text[:indent], list[str]()
    for word in text[indent:].split(" "):
        if head.strip() and width_of(f"{head} {word}") > width and len(head) > indent:
            lines.append(head.rstrip())
            head = " " * indent
        head += word if len(head) <= indent else f" {word}"
    return [*lines, head.rstrip()]


def width_of(text: str) -> int:
    """Return a string's width in terminal cells: East Asian characters two, combining accents none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width  # here, because most names are ASCII

    return sum(0 if combining(one) else 1 + (east_asian_width(one) in "WF") for one in text)
