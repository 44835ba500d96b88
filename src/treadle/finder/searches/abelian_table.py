"""The table of abelian Cayley digraphs: package data, read line by line as sizes are requested.

A line is ``N steps [cost] moduli generators`` under a heading ``degree kind``; the cost is left out where the
bandwidth is optimal, the moduli where the group is cyclic, and of two inverse generators the larger one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod

from treadle.errors import FormatError
from treadle.finder.searches.abelian_search import AbelianSet, inverse
from treadle.finder.searches.cayley_library import LibraryEntry, library_contents, table_lines
from treadle.finder.searches.cayley_value import load_scale

ABELIAN_FILE = "abelian_table.txt.gz"
ABELIAN_HEAD = "treadle abelian table 1"
_KINDS = {"one-way": False, "two-way": True}


class AbelianTable:
    """Sets by size, degree and kind; a cell is parsed on first use.

    Parameters
    ----------
    text : str
        As `tools.finder.library_texts` writes it.

    Raises
    ------
    FormatError
        If it is no such table.
    """

    def __init__(self, text: str) -> None:
        self.commands, lines = table_lines(text, ABELIAN_HEAD)
        self._cells: dict[tuple[int, int, bool], list[str]] = {}
        heading = 0, False
        for line in lines:
            first, _, rest = line.partition(" ")
            if rest in _KINDS:
                heading = int(first), _KINDS[rest]
            else:
                self._cells.setdefault((int(first), *heading), []).append(rest)

    @property
    def cells(self) -> Sequence[tuple[int, int, bool]]:
        """(N, d, is bidirectional) of each cell, in the file's order."""
        return tuple(self._cells)

    def sets(self, n: int, degree: int, *, two_way: bool) -> tuple[AbelianSet, ...]:
        """Return the sets of one cell, by rising steps."""
        return tuple(_parsed(n, degree, two_way, line) for line in self._cells.get((n, degree, two_way), ()))

    def entries(self, n: int, degree: int) -> tuple[LibraryEntry, ...]:
        """Return both kinds as library entries, bidirectional first."""
        return tuple(one.entry for two_way in (True, False) for one in self.sets(n, degree, two_way=two_way))


@cache
def shipped_abelian_table() -> AbelianTable:
    """Return the package's table; read once, never changed."""
    return AbelianTable(library_contents(ABELIAN_FILE))


def _parsed(n: int, degree: int, two_way: bool, line: str) -> AbelianSet:
    try:
        fields = line.split(" ")
        steps, cost, moduli, words = int(fields[0]), fields[1], fields[2], fields[3:]
        group = tuple(int(word) for word in moduli.split("x")) if moduli else (n,)
        kept = [int(word) for word in words]
        inverses = [other for one in kept if (other := inverse(one, group)) != one] if two_way else []
        generators = sorted([*kept, *inverses]) if two_way else kept
        if prod(group) != n or len(generators) != degree:
            raise ValueError("sizes differ")
        optimum = (n - 1) * load_scale(degree) // degree
        return AbelianSet(group, tuple(generators), steps, int(cost) if cost else optimum)
    except (ValueError, IndexError) as error:
        raise FormatError(f"line of {n} nodes, degree {degree}: {line[:80]!r} ({error})") from None
