"""Catalogue graphs by size and degree: which expressions have N nodes of d ports, and what they cost.

Distance-regular graphs, Hamming graphs and twisted tori are bandwidth-optimal by breadth-first broadcast in
as many steps as their diameter (docs/reference/direct-connect-catalogue.md). What has no formula
(SlimFly, dragonflies, twisted hypercubes, Kautz and de Bruijn graphs of degrees that the base figures lack)
is in `catalogue_figures.json`; ``python -m tools.finder.catalogue_figures PATH`` makes that file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import comb, isqrt, prod

from treadle.finder.base_formulas import bandwidth_optimal
from treadle.finder.construction import Base, bfb_base
from treadle.finder.search import FabricCandidate, graph_candidate
from treadle.finder.searches.cayley_library import library_contents
from treadle.topologies.catalogue.finite_field import prime_power

CATALOGUE_FILE = "catalogue_figures.json"
_MOST_NODES = 100_000
MOST_DEGREE = 64
_MOST_TWISTED = 10_000
"""Nodes up to which twisted tori were found to be bandwidth-optimal."""


@dataclass(frozen=True)
class CatalogueGraph:
    """A graph of the catalogue.

    Parameters
    ----------
    expression : str
    nodes, degree : int
    steps : int, optional
        Its diameter, if breadth-first broadcast is known to be bandwidth-optimal; else its values have to
        be computed.
    """

    expression: str
    nodes: int
    degree: int
    steps: int | None = None

    @property
    def family(self) -> str:
        """The function's name with blanks, for reports."""
        return self.expression.partition("(")[0].replace("_", " ")

    @property
    def base(self) -> Base:
        """Make a base whose notation is the expression without blanks."""
        return bfb_base(self.expression)


def formula_graphs() -> Iterator[CatalogueGraph]:
    """Yield graphs of at most 100,000 nodes and degree 64 with formulas for their values, by family."""
    for graph in _all_closed_forms():
        if 2 <= graph.nodes <= _MOST_NODES and 1 <= graph.degree <= MOST_DEGREE:
            yield graph


def _all_closed_forms() -> Iterator[CatalogueGraph]:
    orders = [q for q in range(2, 130) if prime_power(q) is not None]
    for q in orders:
        if q % 4 == 1:
            yield CatalogueGraph(f"paley({q})", q, (q - 1) // 2, 2)
        if q <= 32:
            yield CatalogueGraph(f"projective_plane({q})", 2 * (q * q + q + 1), q + 1, 3)
            yield CatalogueGraph(f"affine_plane({q})", 2 * q * q, q, 4)
        if q <= 9:
            yield CatalogueGraph(f"generalized_quadrangle({q})", 2 * (q + 1) * (q * q + 1), q + 1, 4)
        if q <= 4:
            yield CatalogueGraph(f"generalized_hexagon({q})", 2 * (q**6 - 1) // (q - 1), q + 1, 6)
    for k in range(2, 9):
        yield CatalogueGraph(f"odd_graph({k})", comb(2 * k - 1, k - 1), k, k - 1)
        yield CatalogueGraph(f"doubled_odd_graph({k})", 2 * comb(2 * k - 1, k), k, 2 * k - 1)
    for n in range(3, MOST_DEGREE + 2):
        yield CatalogueGraph(f"crown({n})", 2 * n, n - 1, 3)
    for q in range(2, MOST_DEGREE + 2):
        for n in range(2, 17):
            if q**n <= _MOST_NODES:
                yield CatalogueGraph(f"hamming({n}, {q})", q**n, n * (q - 1), n)
    for k in range(2, isqrt(_MOST_TWISTED)):
        for dims, steps in (((k, 2 * k), k), ((k, k, 2 * k), 3 * k // 2), ((k, 2 * k, 2 * k), 3 * k // 2)):
            if prod(dims) <= _MOST_TWISTED:
                name = f"twisted_torus({', '.join(map(str, dims))})"
                yield CatalogueGraph(name, prod(dims), 2 * len(dims), steps)


@cache
def _by_size() -> Mapping[tuple[int, int], Sequence[CatalogueGraph]]:
    found: dict[tuple[int, int], list[CatalogueGraph]] = {}
    for graph in formula_graphs():
        found.setdefault((graph.nodes, graph.degree), []).append(graph)
    return found


@cache
def _tabled() -> Mapping[tuple[int, int], Sequence[FabricCandidate]]:
    found: dict[tuple[int, int], list[FabricCandidate]] = {}
    # expression, nodes, degree, steps and T_B both ways of each graph of the file
    for expression, n, d, steps, gather, reduce in json.loads(library_contents(CATALOGUE_FILE))["graphs"]:
        base = bfb_base(expression)
        is_one_way, has_loops = base.family in ("kautz", "de bruijn"), base.family == "de bruijn"
        candidate = graph_candidate(
            *(base, n, d, steps, Fraction(gather), Fraction(reduce)),
            is_bidirectional=not is_one_way,
            has_loops=has_loops,
            is_simple=not has_loops,
            has_exact_line_graphs=not is_one_way,
            is_reverse_symmetric=True,
        )
        found.setdefault((n, d), []).append(candidate)
    return found


def catalogue_bases(nodes: int, degree: int) -> Iterator[FabricCandidate]:
    """Yield every catalogue graph of that size and degree that the other tables of bases do not have."""
    for graph in _by_size().get((nodes, degree), ()):
        assert graph.steps is not None, "closed forms know their diameter"
        yield bandwidth_optimal(graph.base, nodes, degree, graph.steps, is_bidirectional=True)
    yield from _tabled().get((nodes, degree), ())
