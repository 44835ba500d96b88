"""The table of neighbours: package data, read line by line as sizes are requested.

A line is ``degree kind nodes steps gather reduce expression`` after a heading and the commands that made it;
the kind is 1 for unidirectional and 2 for bidirectional links, gather and reduce are T_B times N.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

from treadle.errors import FormatError
from treadle.finder.construction import bfb_base
from treadle.finder.measure import measure_graph
from treadle.finder.search import FabricCandidate, graph_candidate
from treadle.finder.searches.cayley_library import library_contents, table_lines
from treadle.finder.searches.neighbour_search import NeighbourEntry
from treadle.topologies import parse
from treadle.topologies.properties import is_regular, is_symmetric

NEIGHBOUR_FILE = "neighbours.txt.gz"
_SEARCHED = re.compile(r"--nodes (\d+):(\d+) --degree (\d+)(?::(\d+))?")

NEIGHBOUR_HEAD = "treadle neighbour table 1"


class NeighbourTable:
    """Graphs by size and degree; a line is parsed on first use.

    Parameters
    ----------
    text : str
        As `tools.finder.neighbours` writes it.

    Raises
    ------
    FormatError
        If it is no such table.
    """

    def __init__(self, text: str) -> None:
        self.commands, lines = table_lines(text, NEIGHBOUR_HEAD)
        self._cells: dict[tuple[int, int], list[str]] = {}
        for line in lines:
            try:
                degree, _, nodes, _ = line.split(" ", 3)
                self._cells.setdefault((int(nodes), int(degree)), []).append(line)
            except ValueError:
                raise FormatError(f"line of neighbours: {line[:80]!r}") from None

    @property
    def sizes(self) -> Sequence[tuple[int, int]]:
        """(N, d) of each size with graphs, in the file's order."""
        return tuple(self._cells)

    def covers(self, nodes: int, degree: int) -> bool:
        """Whether one of the commands looked at a size, whatever it found."""
        return any(
            int(first) <= nodes <= int(last) and int(low) <= degree <= int(high or low)
            for command in self.commands
            for first, last, low, high in _SEARCHED.findall(command)
        )

    def entries(self, nodes: int, degree: int) -> tuple[NeighbourEntry, ...]:
        """Return the graphs of one size."""
        return tuple(map(parsed_entry, self._cells.get((nodes, degree), ())))


def parsed_entry(line: str) -> NeighbourEntry:
    """Parse the line of an entry.

    Raises
    ------
    FormatError
        If it is none.
    """
    try:
        degree, kind, nodes, steps, gather, reduce, expression = line.split(" ", 6)
        n = int(nodes)
        if kind not in ("1", "2") or min(n, int(degree), int(steps)) < 1:
            raise ValueError("kind or numbers")
        t_b = Fraction(gather) / n, Fraction(reduce) / n
        return NeighbourEntry(n, int(degree), kind == "2", int(steps), *t_b, expression)
    except (ValueError, ZeroDivisionError):
        raise FormatError(f"line of neighbours: {line[:80]!r}") from None


@cache
def shipped_neighbours() -> NeighbourTable:
    """Return the package's table; read once, never changed."""
    return NeighbourTable(library_contents(NEIGHBOUR_FILE))


def check_neighbour(entry: NeighbourEntry) -> None:
    """Rebuild the graph and recompute size, degree, kind and the values of both directions.

    Raises
    ------
    FormatError
        If anything differs from the entry.
    TreadleError
        If the expression names no graph.
    """
    graph = parse(entry.expression)
    found = (graph.n_nodes, graph.n_links, is_regular(graph), graph.switches.size)
    if found != (entry.nodes, entry.nodes * entry.degree, True, 0):
        raise FormatError(f"{entry.expression[:80]}: not {entry.nodes} nodes of degree {entry.degree}")
    if entry.bidirectional and not is_symmetric(graph):
        raise FormatError(f"{entry.expression[:80]}: its links are not bidirectional")
    stated, figures = (entry.steps, entry.gather, entry.reduce), measure_graph(graph)
    if figures != stated:
        raise FormatError(f"{entry.expression[:80]}: measured {figures}, but the table says {stated}")


def candidate_of_neighbour(entry: NeighbourEntry, family: str = "neighbour") -> FabricCandidate:
    """Return a graph that was found with its own breadth-first broadcast; exact in both directions."""
    return graph_candidate(
        bfb_base(entry.expression, family),
        *(entry.nodes, entry.degree, entry.steps, entry.gather, entry.reduce),
        is_bidirectional=entry.bidirectional,
        is_simple=False,  # orbits may have parallel links, and a node may come between such links
        is_reverse_symmetric=entry.bidirectional,
    )
