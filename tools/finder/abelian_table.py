"""Searches abelian Cayley digraphs of all sizes and writes the finder's table of them.

``python -m tools.finder.abelian_table --sizes 3-2000 --degrees 2-8 --work 12 --out FILE`` adds to FILE what
it finds better, cell by cell, and keeps what is there: run it again with another ``--seed`` or more work
(millions of words of bit sets for each number of steps; 12 take some fifteen minutes for all cells).
Every set is valued anew by `check_entry` before it is written.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tools.finder.library_texts import abelian_text
from tools.finder.sizes import parse_sizes
from treadle.atomic import write_bytes
from treadle.errors import TopologyError
from treadle.finder.searches.abelian_search import AbelianSet, search_abelian
from treadle.finder.searches.abelian_table import AbelianTable
from treadle.finder.searches.cayley_library import check_entry

_CLOSED_FORM = {(2, True), (4, True)}
"""Rings and C(n, {m, m + 1}) have the fewest steps of all two-way sets, and optimal bandwidth."""

Cells = dict[tuple[int, int, bool], tuple[AbelianSet, ...]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: search the cells asked for and write the table; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.finder.abelian_table", description=__doc__)
    parser.add_argument("--sizes", default="3-2000", help="node counts joined by commas; A-B is a range")
    parser.add_argument("--degrees", default="2-8", help="likewise")
    parser.add_argument("--work", type=float, default=25, help="millions of words for each number of steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="table to write or to add to")
    words = list(sys.argv[1:] if arguments is None else arguments)
    given = parser.parse_args(words)
    try:
        cells, commands = _read(given.out)
        command = f"python -m tools.finder.abelian_table {' '.join(words)}"
        work = int(given.work * 10**6)
        for degree in parse_sizes(given.degrees):
            for n in parse_sizes(given.sizes):
                for two_way in (True, False):
                    _search(cells, n, degree, two_way, work, given.seed)
            _write(given.out, cells, [*commands, command])
    except (TopologyError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _search(cells: Cells, n: int, degree: int, two_way: bool, work: int, seed: int) -> None:
    """Extend one cell; a one-way set stays only if it beats the two-way ones."""
    if (degree, two_way) in _CLOSED_FORM or (two_way and n * degree % 2) or n <= degree + 1:
        return
    place = n, degree, two_way
    known = cells.get(place, ())
    found = search_abelian(n, degree, work=work, seed=seed, two_way=two_way, starts=known).entries
    if not two_way:
        rivals = cells.get((n, degree, True), ())
        found = tuple(one for one in found if not any(_is_at_most(other, one) for other in rivals))
    for one in found:
        if one not in known:
            check_entry(one.entry)
    if found:
        cells[place] = found
    else:
        cells.pop(place, None)


def _is_at_most(one: AbelianSet, other: AbelianSet) -> bool:
    return one.steps <= other.steps and one.cost <= other.cost


def _read(path: Path) -> tuple[Cells, list[str]]:
    if not path.exists():
        return {}, []
    table = AbelianTable(gzip.decompress(path.read_bytes()).decode("ascii"))
    cells = {(n, d, both): table.sets(n, d, two_way=both) for n, d, both in table.cells}
    return cells, list(table.commands)


def _write(path: Path, cells: Cells, commands: Iterable[str]) -> None:
    text = abelian_text(cells, list(dict.fromkeys(commands)))
    write_bytes(path, gzip.compress(text.encode("ascii"), 9, mtime=0))


if __name__ == "__main__":
    sys.exit(main())
