"""Values of bases without a formula, shipped as data; `tools/finder/base_figures.py` makes the file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache

from treadle.finder.base_formulas import formula_bases
from treadle.finder.catalogue_bases import catalogue_bases
from treadle.finder.construction import Base, LineGraph, ScheduleMethod, bfb_base
from treadle.finder.search import FabricCandidate, graph_candidate
from treadle.finder.searches.abelian_table import AbelianTable, shipped_abelian_table
from treadle.finder.searches.cayley_library import (
    LibraryEntry,
    LineGraphEntry,
    library_contents,
    load_library,
)
from treadle.finder.searches.cayley_value import load_scale
from treadle.finder.searches.line_graph_library import load_line_graphs
from treadle.finder.searches.neighbour_table import (
    NeighbourTable,
    candidate_of_neighbour,
    shipped_neighbours,
)

_FILE = "base_figures.json"


@dataclass(frozen=True)
class Tables:
    """Contents of the data files.

    Parameters
    ----------
    figures : mapping of family to mapping of (nodes, degree) to (steps, T_B, T_B of the reduce-scatter)
    library : mapping of (nodes, degree) to candidates found by search
    abelian : AbelianTable, optional
        Abelian Cayley digraphs.
    has_catalogue : bool
        Whether the graphs of `catalogue_bases` count too.
    neighbours : NeighbourTable, optional
        Graphs made from those of a few nodes more or less.
    """

    figures: Mapping[str, Mapping[tuple[int, int], tuple[int, Fraction, Fraction]]]
    library: Mapping[tuple[int, int], Sequence[FabricCandidate]] = field(default_factory=dict)
    abelian: AbelianTable | None = None
    has_catalogue: bool = False
    neighbours: NeighbourTable | None = None

    def bases(self, nodes: int, degree: int) -> Iterator[FabricCandidate]:
        """Return every known base of that size, formulas included, the simplest first, for `Finder`."""
        yield from formula_bases(nodes, degree)
        if self.has_catalogue:
            yield from catalogue_bases(nodes, degree)
        yield from self.library.get((nodes, degree), ())
        if self.abelian is not None:
            yield from map(candidate_of_cayley, self.abelian.entries(nodes, degree))
        for family, rows in self.figures.items():
            if (nodes, degree) in rows:
                yield _from_figures(family, nodes, degree, rows[nodes, degree])
        if self.neighbours is not None:
            yield from map(candidate_of_neighbour, self.neighbours.entries(nodes, degree))


def _from_figures(family: str, n: int, d: int, row: tuple[int, Fraction, Fraction]) -> FabricCandidate:
    steps, lift = row[0], n // (d + 1)
    expression, notation, words, has_loops = {
        "jellyfish": (f"jellyfish({n}, {d})", f"Jellyfish({n},{d})", "random regular", False),
        "xpander": (f"xpander({d}, {lift})", f"Xpander({d},{lift})", "random lift", False),
        "generalized_kautz": (
            f"generalized_kautz({d}, {n})",
            f"Pi({d},{n})",
            "generalized Kautz",
            n % (d + 1) != 0,
        ),
        "de_bruijn": (f"de_bruijn({d}, {steps})", f"DBJ({d},{steps})", "de Bruijn", True),
    }[family]
    is_two_way = family in ("jellyfish", "xpander")
    return graph_candidate(
        Base(expression, notation, ScheduleMethod.BFB, words),
        n,
        d,
        *row,
        is_bidirectional=is_two_way,
        has_loops=has_loops,
        is_simple=not has_loops,
        is_reverse_symmetric=is_two_way,
    )


@cache
def shipped_tables(*, line_graphs: bool = True, neighbours: bool = True) -> Tables:
    """Return the data files of the package, some of them on request only; read once, never changed."""
    library: dict[tuple[int, int], list[FabricCandidate]] = {}
    for entry in load_library():
        library.setdefault((entry.nodes, entry.degree), []).append(candidate_of_cayley(entry))
    for found in load_line_graphs() if line_graphs else ():
        library.setdefault((found.nodes, found.degree), []).append(candidate_of_line_graph(found))
    return Tables(
        _decode(json.loads(library_contents(_FILE))),
        library,
        shipped_abelian_table(),
        has_catalogue=True,
        neighbours=shipped_neighbours() if neighbours else None,
    )


def candidate_of_cayley(entry: LibraryEntry) -> FabricCandidate:
    """Return a Cayley digraph that search found; the entry's T_B is that of the worse direction."""
    n, d = entry.nodes, entry.degree
    generators = re.findall(r"\d+", entry.expression)[-d:]
    # The two directions cost the same, or neither can cost less than the worse one.
    symmetric = entry.bidirectional or entry.expression.startswith("abelian")
    return graph_candidate(
        *(bfb_base(entry.expression, "Cayley"), n, d, entry.t_l, entry.t_b, entry.t_b),
        is_bidirectional=entry.bidirectional,
        is_simple=len(set(generators)) == d,
        has_exact_line_graphs=entry.bidirectional and n > 2,
        is_exact=symmetric or entry.t_b == Fraction(n - 1, n),
        is_reverse_symmetric=symmetric,
    )


def candidate_of_line_graph(entry: LineGraphEntry) -> FabricCandidate:
    """Return a searched line graph of a Cayley digraph; its breadth-first broadcasts are exact.

    Cayley digraphs have no self-loops, and their parallel links become different nodes: it is simple.
    """
    figures = entry.t_l, entry.gather_t_b, entry.reduce_t_b
    graph = LineGraph(bfb_base(entry.base, "Cayley"), entry.power)
    return graph_candidate(graph, entry.nodes, entry.degree, *figures, is_bidirectional=False)


def _decode(
    values: Mapping[str, Mapping[str, Mapping[str, list[int]]]],
) -> dict[str, dict[tuple[int, int], tuple[int, Fraction, Fraction]]]:
    return {
        family: {
            (n, int(degree)): (steps, Fraction(gather, n * scale), Fraction(reduce, n * scale))
            for degree, columns in degrees.items()
            for scale in (load_scale(int(degree)),)
            for n, steps, gather, reduce in zip(
                *(columns[key] for key in ("nodes", "steps", "gather", "reduce")), strict=True
            )
        }
        for family, degrees in values.items()
    }
