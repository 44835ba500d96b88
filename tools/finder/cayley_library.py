"""Searches Cayley digraphs and prints the entries found, or merges such outputs into the finder's library.

``python -m tools.finder.cayley_library --degree 4 --sizes 32,64 --trials 20000 --seed 0 [--bidirectional]``
prints the entries found, as JSON; ``--merge FILE ...`` combines such outputs into the library.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tools.finder.library_texts import cayley_text
from tools.finder.sizes import parse_sizes
from treadle.errors import TopologyError
from treadle.finder.searches.cayley_library import LibraryEntry, read_entries
from treadle.finder.searches.cayley_search import search_cayley


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: search and print entries, or merge outputs; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.finder.cayley_library", description=__doc__)
    parser.add_argument("--degree", type=int)
    parser.add_argument("--sizes", help="node counts joined by commas; A-B is a range")
    parser.add_argument("--trials", type=int, default=20000, help="generator sets per size")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bidirectional", action="store_true")
    parser.add_argument("--merge", nargs="+", metavar="FILE", help="outputs to combine into a library")
    words = list(sys.argv[1:] if arguments is None else arguments)
    given = parser.parse_args(words)
    try:
        if given.merge:
            parts = [read_entries(Path(name).read_text(encoding="utf-8")) for name in given.merge]
            sys.stdout.write(cayley_text([entry for part in parts for entry in part]))
            return 0
        if given.degree is None or given.sizes is None:
            parser.error("--degree and --sizes are needed")
        command = f"python -m tools.finder.cayley_library {' '.join(words)}"
        found: list[LibraryEntry] = []
        for n in parse_sizes(given.sizes):
            found += search_cayley(
                n, given.degree, trials=given.trials, seed=given.seed, bidirectional=given.bidirectional
            ).entries
        sys.stdout.write(cayley_text([replace(entry, command=command) for entry in found]))
    except (TopologyError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
