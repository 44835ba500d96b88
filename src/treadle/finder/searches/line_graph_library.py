"""The library of searched line graphs of Cayley digraphs: package data; each entry can be recomputed."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from treadle.finder.measure import bfb_values
from treadle.finder.searches.cayley_library import (
    LineGraphEntry,
    check_stated,
    library_contents,
    read_library,
)
from treadle.topologies.catalogue.cayley import cayley_graph
from treadle.topologies.transforms.expansions import line_graph

NAME = "line_graph_library"
COLUMNS = ["degree", "nodes", "power", "t_l", "gather_t_b", "reduce_t_b", "base", "command"]


def load_line_graphs() -> tuple[LineGraphEntry, ...]:
    """Return all entries, by degree, size and T_L; `check_entry` recomputes one."""
    return read_entries(library_contents(f"{NAME}.json"), source=f"{NAME}.json")


def check_entry(entry: LineGraphEntry) -> None:
    """Build the line graph and recompute size, degree, T_L and T_B of both directions.

    Raises
    ------
    FormatError
        If anything differs from the entry.
    TopologyError
        If the base is not a Cayley digraph, or the line graph too large.
    """
    base = cayley_graph(entry.base)
    topology = line_graph(base.topology(), entry.power)
    found = (topology.n_nodes, base.degree, *bfb_values(topology))
    stated = (entry.nodes, entry.degree, entry.t_l, entry.gather_t_b, entry.reduce_t_b)
    names = ("nodes", "degree", "T_L", "T_B", "T_B of the reduce-scatter")
    check_stated(entry.expression, names, found, stated)


def read_entries(text: str, *, source: str = "") -> tuple[LineGraphEntry, ...]:
    """Return the entries of a library's JSON.

    Raises
    ------
    FormatError
        If the string is not a library of this version.
    """

    def entry(row: list[Any], command: str) -> LineGraphEntry:
        d, n, power, t_l, gather, reduce, base = row
        t_b = Fraction(gather), Fraction(reduce)
        return LineGraphEntry(int(d), int(n), int(power), str(base), int(t_l), *t_b, command)

    return read_library(text, NAME, "line graph library", entry, source)
