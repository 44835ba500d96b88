"""Whether a catalogue graph beats the finder at its own size and degree, up to 2000 nodes.

Run ``python -m benchmarks.catalogue_frontiers``. Graphs whose figures are known in closed form or tabled (the
tests compute samples of them anew), and all tori of up to four rings, whose breadth-first broadcast is
bandwidth-optimal. Prints each graph that the frontier of its size is worse than, and the count.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from math import prod

from treadle.finder.construction import expression
from treadle.finder.search import FabricCandidate, Finder
from treadle.finder.tables import Tables, shipped_tables

MOST_NODES = 2000
MOST_DEGREE = 64


def known_graphs() -> Iterator[FabricCandidate]:
    """Every catalogue graph with known figures."""
    bases = Tables(shipped_tables().figures, has_catalogue=True).bases
    for nodes in range(2, MOST_NODES + 1):
        for degree in range(1, MOST_DEGREE + 1):
            yield from bases(nodes, degree)


def torus_points() -> Iterator[tuple[str, int, int, int]]:
    """Name, nodes, degree and steps of tori of up to four rings of three or more; all bandwidth-optimal."""

    def grow(dims: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if dims:
            yield dims
        first = dims[-1] if dims else 3
        for one in range(first, MOST_NODES // prod(dims) + 1):
            if len(dims) < 4:
                yield from grow((*dims, one))

    for dims in grow(()):
        yield f"torus{dims}", prod(dims), 2 * len(dims), sum(one // 2 for one in dims)


def main() -> int:
    """Compare all; status 1 if a graph beats the frontier of its size."""
    start = time.process_time()
    finders = {two_way: Finder(shipped_tables().bases, bidirectional=two_way) for two_way in (False, True)}
    count = beaten = 0
    for graph in known_graphs():
        count += 1
        kinds = {False, graph.gather.is_bidirectional}
        for two_way in kinds:
            frontier = finders[two_way].frontier(graph.gather.nodes, graph.gather.degree)
            if not any(one.steps <= graph.steps and one.t_b_both <= graph.t_b_both for one in frontier):
                beaten += 1
                print(f"beats the frontier (two-way {two_way}): {expression(graph.construction)}")
    for name, nodes, degree, steps in torus_points():
        count += 1
        frontier = finders[True].frontier(nodes, degree)
        if not any(one.steps <= steps and one.is_bandwidth_optimal for one in frontier):
            beaten += 1
            print(f"beats the frontier: {name}, {steps} steps")
    print(
        f"{count} graphs, {beaten} beat the frontier of their size; {time.process_time() - start:.0f} CPU s"
    )
    return 1 if beaten else 0


if __name__ == "__main__":
    sys.exit(main())
