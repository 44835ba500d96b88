"""The table of abelian Cayley digraphs: package data, read line by line as sizes are requested.

A line is ``N steps [cost] moduli generators`` under a heading ``degree kind``; the cost is left out where the
bandwidth is optimal, the moduli where the group is cyclic, and of two inverse generators the larger one.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from math import prod

from treadle.errors import FormatError
from treadle.finder.searches.abelian_search import AbelianSet, inverse
from treadle.finder.searches.cayley_library import LibraryEntry
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
        head, _, body = text.partition("\n")
        if head != ABELIAN_HEAD:
            raise FormatError(f"expected {ABELIAN_HEAD!r} in the first line, found {head[:40]!r}")
        self._cells: dict[tuple[int, int, bool], list[str]] = {}
        place = 0, False
        self.commands: list[str] = []
        for line in body.splitlines():
            first, _, rest = line.partition(" ")
            if first == "#":
                self.commands.append(rest)
            elif rest in _KINDS:
                place = int(first), _KINDS[rest]
            else:
                self._cells.setdefault((int(first), *place), []).append(rest)

    @property
    def cells(self) -> Sequence[tuple[int, int, bool]]:
        """(N, d, is bidirectional) of each cell, in the file's order."""
        return tuple(self._cells)

    def sets(self, n: int, degree: int, *, two_way: bool) -> tuple[AbelianSet, ...]:
        """Sets of one cell, by rising steps."""
        return tuple(_parsed(n, degree, two_way, line) for line in self._cells.get((n, degree, two_way), ()))

    def entries(self, n: int, degree: int) -> tuple[LibraryEntry, ...]:
        """Return both kinds as library entries, bidirectional first."""
        return tuple(one.entry for two_way in (True, False) for one in self.sets(n, degree, two_way=two_way))


@cache
def shipped_abelian_table() -> AbelianTable:
    """The package's table; read once, never changed."""
    data = files("treadle.finder").joinpath("data", ABELIAN_FILE).read_bytes()
    return AbelianTable(gzip.decompress(data).decode("ascii"))


def _parsed(n: int, degree: int, two_way: bool, line: str) -> AbelianSet:
    try:
        fields = line.split(" ")
        steps, cost, moduli, words = int(fields[0]), fields[1], fields[2], fields[3:]
        group = tuple(int(word) for word in moduli.split("x")) if moduli else (n,)
        kept = [int(word) for word in words]
        generators = sorted([*kept, *_inverses(kept, group)]) if two_way else kept
        if prod(group) != n or len(generators) != degree:
            raise ValueError("sizes differ")
        optimum = (n - 1) * load_scale(degree) // degree
        return AbelianSet(group, tuple(generators), steps, int(cost) if cost else optimum)
    except (ValueError, IndexError) as error:
        raise FormatError(f"line of {n} nodes, degree {degree}: {line[:80]!r} ({error})") from None


def _inverses(kept: Sequence[int], moduli: Sequence[int]) -> list[int]:
    return [other for one in kept if (other := inverse(one, moduli)) != one]
