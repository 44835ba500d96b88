"""Searches line graphs of Cayley digraphs and prints them, or merges such outputs into the finder's library.

``python -m tools.finder.line_graph_library --degree 4 --sizes 128,512 --trials 20000 --seed 0 [--power n]``
prints the line graphs found, as JSON; sizes are those of L^n, those that d^n does not divide are skipped.
``--merge FILE ...`` combines such outputs into the library, keeping what the finder does not know without it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from tools.finder.library_texts import line_graph_text
from tools.finder.sizes import parse_sizes
from treadle.errors import TreadleError
from treadle.finder.search import FabricCandidate, Finder
from treadle.finder.searches.cayley_library import LineGraphEntry, pareto_entries
from treadle.finder.searches.line_graph_library import read_entries
from treadle.finder.searches.line_graph_search import search_line_graphs
from treadle.finder.searches.line_graph_value import check_power
from treadle.finder.tables import shipped_tables


def unknown_entries(entries: Iterable[LineGraphEntry]) -> tuple[LineGraphEntry, ...]:
    """Those that beat, in T_L or T_B, all that the finder predicts without the line graph library.

    Measured, some of its own line graphs may turn out as good; but as bases of further expansions, and when
    it discards, only predictions count.
    """
    tables = shipped_tables(line_graphs=False)
    finder = Finder(tables.bases)
    known: dict[tuple[int, int], list[FabricCandidate]] = {}
    kept: list[LineGraphEntry] = []
    for entry in pareto_entries(entries):
        place = entry.nodes, entry.degree
        if place not in known:
            known[place] = finder.frontier(*place)
        both = entry.gather_t_b + entry.reduce_t_b
        if not any(c.steps <= entry.t_l and c.t_b_both <= both for c in known[place]):
            kept.append(entry)
    return tuple(kept)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: search and print entries, or merge outputs; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.finder.line_graph_library", description=__doc__)
    parser.add_argument("--degree", type=int)
    parser.add_argument("--sizes", help="nodes of the line graphs, joined by commas; A-B is a range")
    parser.add_argument("--trials", type=int, default=20000, help="generator sets per size")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--power", type=int, default=1, help="n of L^n, 1 to 3")
    parser.add_argument("--merge", nargs="+", metavar="FILE", help="outputs to combine into a library")
    words = list(sys.argv[1:] if arguments is None else arguments)
    given = parser.parse_args(words)
    try:
        if given.merge:
            parts = [
                read_entries(Path(name).read_text(encoding="utf-8"), source=name) for name in given.merge
            ]
            sys.stdout.write(line_graph_text(unknown_entries(entry for part in parts for entry in part)))
            return 0
        if given.degree is None or given.sizes is None:
            parser.error("--degree and --sizes are needed")
        check_power(given.power, given.degree)
        command = f"python -m tools.finder.line_graph_library {' '.join(words)}"
        found: list[LineGraphEntry] = []
        for n in _base_multiples(given.sizes, given.degree**given.power):
            found += search_line_graphs(
                n, given.degree, trials=given.trials, seed=given.seed, power=given.power
            ).entries
        sys.stdout.write(line_graph_text(replace(entry, command=command) for entry in found))
    except (TreadleError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _base_multiples(text: str, multiple_of: int) -> list[int]:
    """Sizes that a line graph can have."""
    return [size for size in parse_sizes(text) if size % multiple_of == 0 and size // multiple_of > 1]


if __name__ == "__main__":
    sys.exit(main())
