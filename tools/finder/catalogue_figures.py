"""Computes the figures that `treadle.finder.catalogue_bases` reads.

``python -m tools.finder.catalogue_figures PATH`` writes the file anew: steps and exact T_B of breadth-first
broadcast and of its reverse on every catalogue graph of at most 2000 nodes without a closed form; some three
minutes of CPU time.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from math import isqrt
from pathlib import Path

from treadle.atomic import write_bytes
from treadle.finder.catalogue_bases import MOST_DEGREE, CatalogueGraph
from treadle.finder.measure import measure_graph
from treadle.synthesis.steps.bfb import bfb_value
from treadle.topologies import parse
from treadle.topologies.catalogue.finite_field import prime_power
from treadle.topologies.properties import is_symmetric

MAX_TABLED = 2000
"""Nodes up to which graphs without a closed form are tabled."""


def measured_graphs(max_nodes: int = MAX_TABLED) -> Iterator[CatalogueGraph]:
    """Graphs of at most `max_nodes` nodes of degree up to 64 whose figures have to be computed."""
    for graph in _all_measured(max_nodes):
        if graph.nodes <= max_nodes and graph.degree <= MOST_DEGREE:
            yield graph


def _all_measured(most: int) -> Iterator[CatalogueGraph]:
    for q in range(3, isqrt(most // 2) + 1):
        delta = {0: 0, 1: 1, 3: -1}.get(q % 4)
        if prime_power(q) is not None and delta is not None:
            yield CatalogueGraph(f"slimfly({q})", 2 * q * q, (3 * q - delta) // 2)
    for a in range(2, MOST_DEGREE + 1):
        for h in range(1, MOST_DEGREE + 1):
            yield CatalogueGraph(f"dragonfly({a}, {h})", a * (a * h + 1), a - 1 + h)
    for n in range(4, most.bit_length()):
        yield CatalogueGraph(f"twisted_hypercube({n})", 2**n, n)
    for d in (7, *range(9, 16), *range(17, MOST_DEGREE)):
        for n in range(1, 4):
            yield CatalogueGraph(f"kautz({d}, {n})", d**n * (d + 1), d)
            if n > 1:
                yield CatalogueGraph(f"de_bruijn({d}, {n})", d**n, d)


def figure_rows(max_nodes: int) -> list[list[int | str]]:
    """Expression, nodes, degree, steps and T_B both ways of each graph."""
    rows: list[list[int | str]] = []
    for graph in measured_graphs(max_nodes):
        topology = parse(graph.expression)
        if is_symmetric(topology):  # opposite links carry the same schedule backwards
            value = bfb_value(topology)
            steps, gather, reduce = value.diameter, value.t_b, value.t_b
        else:
            steps, gather, reduce = measure_graph(topology)
        rows.append([graph.expression, graph.nodes, graph.degree, steps, str(gather), str(reduce)])
    return rows


def main(arguments: Sequence[str]) -> int:
    """Write the file; returns the exit status."""
    if len(arguments) not in (1, 2):
        sys.stderr.write("usage: python -m tools.finder.catalogue_figures PATH [NODES]\n")
        return 2
    lines = ",\n".join(
        json.dumps(row) for row in figure_rows(int(arguments[1]) if arguments[1:] else MAX_TABLED)
    )
    columns = '["expression", "nodes", "degree", "steps", "gather", "reduce"]'
    write_bytes(Path(arguments[0]), f'{{"columns": {columns},\n"graphs": [\n{lines}\n]}}\n'.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
