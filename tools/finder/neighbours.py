"""Searches neighbours of known graphs, and writes the finder's table of them.

``python -m tools.finder.neighbours --nodes 5:200 --degree 2:8 --work 600 --seed 0 FILE`` looks at every size,
one-way and two-way (``--kinds``), and adds to FILE what no known graph beats: graphs of up to three nodes
more or less, nodes inserted or deleted and links swapped. The same command on the same FILE gives the same
table. ``--work`` is in millions of node pairs times (d + 16), half a nanosecond each. Every row is computed
anew from its expression before it is kept.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from treadle.atomic import write_bytes
from treadle.finder.search import FabricCandidate, Finder
from treadle.finder.searches.neighbour_search import NeighbourEntry, neighbour_trials, search_neighbours
from treadle.finder.searches.neighbour_table import NEIGHBOUR_HEAD, NeighbourTable, check_neighbour
from treadle.finder.tables import shipped_tables

_KINDS = {"one-way": False, "two-way": True}


def entry_line(entry: NeighbourEntry) -> str:
    """The line of an entry.

    Examples
    --------
    >>> ring = "with_inserted_nodes(uni_ring(1, 4), 2)"
    >>> entry_line(NeighbourEntry(5, 1, False, 4, Fraction(4, 5), Fraction(4, 5), ring))
    '1 1 5 4 4 4 with_inserted_nodes(uni_ring(1, 4), 2)'
    """
    kind = 2 if entry.bidirectional else 1
    loads = entry.gather * entry.nodes, entry.reduce * entry.nodes
    return f"{entry.degree} {kind} {entry.nodes} {entry.steps} {loads[0]} {loads[1]} {entry.expression}"


def table_text(commands: Iterable[str], entries: Iterable[NeighbourEntry]) -> str:
    """The table's text: commands as they came, entries by degree, kind, nodes and steps."""
    order = sorted(entries, key=lambda e: (e.degree, e.bidirectional, e.nodes, e.steps))
    lines = [NEIGHBOUR_HEAD, *(f"# {command}" for command in commands), *map(entry_line, order)]
    return "".join(f"{line}\n" for line in lines)


def _beats(known: Iterable[FabricCandidate], entry: NeighbourEntry) -> bool:
    return any(one.steps <= entry.steps and one.t_b_both <= entry.t_b_both for one in known)


def improved(
    sizes: Iterable[tuple[int, int]], kinds: Sequence[bool], work: int, seed: int
) -> Iterator[NeighbourEntry]:
    """What is found at each size that no graph beats which the library knows without neighbours."""
    tables = shipped_tables(neighbours=False)
    for two_way in kinds:
        finder = Finder(tables.bases, bidirectional=two_way)
        for nodes, degree in sizes:
            if two_way and nodes * degree % 2:
                continue
            known = finder.frontier(nodes, degree)
            trials = neighbour_trials(nodes, degree, work * 10**6)
            found = search_neighbours(
                nodes, degree, finder, known, trials=trials, seed=seed, two_way=two_way
            ).entries
            for entry in found:
                if not _beats(known, entry):
                    check_neighbour(entry)
                    yield entry


def merged(entries: Iterable[NeighbourEntry]) -> list[NeighbourEntry]:
    """Entries that none of the same size and kind beats; a two-way one is as good as a one-way one."""
    kept: list[NeighbourEntry] = []
    for one in sorted(entries, key=lambda e: (e.steps, e.t_b_both, not e.bidirectional, len(e.expression))):
        rivals = (
            other
            for other in kept
            if (other.nodes, other.degree) == (one.nodes, one.degree)
            and (other.bidirectional or not one.bidirectional)
        )
        if not any(other.t_b_both <= one.t_b_both for other in rivals):
            kept.append(one)
    return kept


def _range(text: str) -> range:
    first, _, last = text.partition(":")
    return range(int(first), int(last or first) + 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: search some sizes and add to the file; returns the exit status."""
    given_words = sys.argv[1:] if arguments is None else list(arguments)
    parser = argparse.ArgumentParser(prog="python -m tools.finder.neighbours", description=__doc__)
    parser.add_argument("--nodes", type=_range, required=True, metavar="FIRST:LAST")
    parser.add_argument("--degree", type=_range, required=True, metavar="FIRST:LAST")
    parser.add_argument("--kinds", nargs="+", choices=tuple(_KINDS), default=list(_KINDS))
    parser.add_argument("--work", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("file", type=Path)
    given = parser.parse_args(given_words)
    before: list[NeighbourEntry] = []
    commands: list[str] = []
    if given.file.exists():
        table = NeighbourTable(gzip.decompress(given.file.read_bytes()).decode("ascii"))
        commands = list(table.commands)
        before = [entry for size in table.sizes for entry in table.entries(*size)]
    sizes = [(nodes, degree) for degree in given.degree for nodes in given.nodes if nodes > degree + 1]
    found = list(improved(sizes, [_KINDS[kind] for kind in given.kinds], given.work, given.seed))
    options = " ".join(word for word in given_words if word != str(given.file))
    commands.append(f"python -m tools.finder.neighbours {options}")
    entries = merged([*before, *found])
    write_bytes(given.file, gzip.compress(table_text(commands, entries).encode("ascii"), 9, mtime=0))
    kept = sum(entry in found for entry in entries)
    sys.stderr.write(f"{len(sizes)} sizes, {kept} of {len(found)} graphs added, {len(entries)} in all\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
