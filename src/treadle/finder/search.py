"""Bottom-up Pareto search over bases and expansions (dissertation, section 3.5.4).

A candidate is a fabric with N nodes of degree d and a schedule, known by predicted figures only: the theorems
of section A.4 say what every expansion makes of steps and bandwidth time, so that nothing is built here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd
from operator import attrgetter

from treadle.brief import brief
from treadle.finder.construction import (
    Construction,
    DegreeExpansion,
    LineGraph,
    Parallel,
    Power,
    Product,
    WithReverse,
)
from treadle.finder.predict import (
    Performance,
    cartesian_power_performance,
    cartesian_product_performance,
    degree_expansion_performance,
    line_graph_performance,
)
from treadle.finder.searches.cayley_groups import divisors

_MOST_HOPEFUL = 24
"""Candidates beyond the frontier that are measured."""

Bases = Callable[[int, int], Iterable["FabricCandidate"]]
"""bases(nodes, degree): every known base of that size."""


@brief("construction", "is_reverse_symmetric")
@dataclass(frozen=True, slots=True)
class FabricCandidate:
    """A fabric and its schedules, by predicted figures.

    Parameters
    ----------
    construction : Construction
    gather : Performance
        Of the allgather.
    reduce : Performance
        Of the reduce-scatter, as an allgather of the transpose; the same object where equal.
    is_reverse_symmetric : bool
        Known to be isomorphic to its transpose (Definition 6).
    """

    construction: Construction
    gather: Performance
    reduce: Performance
    is_reverse_symmetric: bool = False

    @property
    def steps(self) -> int:
        """T_L / alpha of an allgather, and of a reduce-scatter."""
        return max(self.gather.steps, self.reduce.steps)

    @property
    def t_b_both(self) -> Fraction:
        """T_B of reduce-scatter and allgather together, that of an allreduce, in M/B."""
        return self.gather.t_b + self.reduce.t_b

    @property
    def cost(self) -> tuple[int, Fraction]:
        """Steps and T_B of both directions, by which candidates are compared."""
        return self.steps, self.t_b_both

    @property
    def is_bandwidth_optimal(self) -> bool:
        """T_B = (N - 1) / N for allgather and reduce-scatter (Theorem 4)."""
        return self.gather.is_bandwidth_optimal and self.reduce.is_bandwidth_optimal

    @property
    def is_exact(self) -> bool:
        """Values equal those of the schedules; otherwise the schedules are at least as good."""
        return self.gather.is_exact and self.reduce.is_exact


def graph_candidate(
    base: Construction,
    nodes: int,
    degree: int,
    steps: int,
    gather: Fraction,
    reduce: Fraction,
    *,
    is_bidirectional: bool,
    cycle: int | None = None,
    is_breadth_first: bool = True,
    has_loops: bool = False,
    is_simple: bool = True,
    has_exact_line_graphs: bool = False,
    is_exact: bool = True,
    is_reverse_symmetric: bool = False,
) -> FabricCandidate:
    """Return a graph with schedules of as many steps as its diameter; T_B of both directions, in M/B."""
    figures = Performance(
        nodes=nodes,
        degree=degree,
        steps=steps,
        t_b=gather,
        diameter=steps,
        cycle=2 if is_bidirectional else cycle,
        is_breadth_first=is_breadth_first,
        has_loops=has_loops,
        is_simple=is_simple,
        is_bidirectional=is_bidirectional,
        has_exact_line_graphs=has_exact_line_graphs,
        is_exact=is_exact,
    )
    other = figures if reduce == gather else replace(figures, t_b=reduce)
    return FabricCandidate(base, figures, other, is_reverse_symmetric)


def _changed(
    base: FabricCandidate, construction: Construction, change: Callable[[Performance], Performance]
) -> FabricCandidate:
    gather = change(base.gather)
    reduce = gather if base.reduce is base.gather else change(base.reduce)
    return FabricCandidate(construction, gather, reduce, base.is_reverse_symmetric)


def line_graph_of(base: FabricCandidate, times: int = 1) -> FabricCandidate:
    """Return L^times (Theorem 7), written as a higher line graph where the base is one already."""
    of = base.construction
    before, of = (of.times, of.of) if isinstance(of, LineGraph) else (0, of)
    return _changed(base, LineGraph(of, before + times), lambda p: line_graph_performance(p, times))


def degree_expansion_of(base: FabricCandidate, copies: int) -> FabricCandidate:
    """Return G * copies (Theorem 11); G must have no self-loops."""
    construction = DegreeExpansion(base.construction, copies)
    return _changed(base, construction, lambda p: degree_expansion_performance(p, copies))


def power_of(base: FabricCandidate, exponent: int) -> FabricCandidate:
    """Return the cartesian power (Theorem 12)."""
    construction = Power(base.construction, exponent)
    return _changed(base, construction, lambda p: cartesian_power_performance(p, exponent))


def product_of(*parts: FabricCandidate) -> FabricCandidate:
    """Return the product (Theorem 13) of simple graphs with bandwidth-optimal breadth-first schedules."""
    factors: list[Construction] = []
    for part in parts:
        inner = part.construction
        factors += inner.factors if isinstance(inner, Product) else [inner]
    gather = cartesian_product_performance(*(part.gather for part in parts))
    return FabricCandidate(
        Product(tuple(sorted(factors, key=repr))),
        gather,
        gather,  # bandwidth-optimal both ways
        all(part.is_reverse_symmetric for part in parts),
    )


def parallel_of(base: FabricCandidate, times: int) -> FabricCandidate:
    """Return every link `times` times over: the same steps and, in M/B, the same bandwidth time."""
    construction = Parallel(base.construction, times)
    return _changed(
        base,
        construction,
        lambda p: replace(p, degree=p.degree * times, is_simple=False, has_exact_line_graphs=False),
    )


def with_reverse_of(base: FabricCandidate) -> FabricCandidate:
    """Return G and its transpose combined (section A.1.6); G must be reverse-symmetric."""
    return _changed(
        base,
        WithReverse(base.construction),
        lambda p: replace(
            p,
            degree=p.degree * 2,
            diameter=None,
            cycle=2,
            is_breadth_first=False,
            is_simple=False,
            is_bidirectional=True,
            has_exact_line_graphs=False,
        ),
    )


Key = Callable[[FabricCandidate], tuple[int | Fraction, ...]]


def pareto(candidates: Iterable[FabricCandidate], key: Key = attrgetter("cost")) -> list[FabricCandidate]:
    """Return the candidates that no other one equals or beats in every entry of `key`, by rising key.

    Of equals the first stays.
    """
    kept: list[tuple[tuple[int | Fraction, ...], FabricCandidate]] = []
    for values, candidate in sorted(((key(c), c) for c in candidates), key=lambda pair: pair[0]):
        if not any(all(a <= b for a, b in zip(other, values, strict=True)) for other, _ in kept):
            kept.append((values, candidate))
    return [candidate for _, candidate in kept]


class Finder:
    """Frontiers of all requested sizes, each computed once.

    Parameters
    ----------
    bases : callable
        bases(nodes, degree), in the order of preference among equals.
    bidirectional : bool
        Only fabrics with bidirectional links.
    """

    def __init__(self, bases: Bases, *, bidirectional: bool = False) -> None:
        self._bidirectional = bidirectional
        self._bases = bases
        if bidirectional:
            self._bases = lambda nodes, degree: (
                base for base in bases(nodes, degree) if base.gather.is_bidirectional
            )
        self._kept: dict[tuple[int, int], list[FabricCandidate]] = {}
        self._factors: dict[tuple[int, int], FabricCandidate | None] = {}
        self._one_way = Finder(bases) if bidirectional else self

    def frontier(self, nodes: int, degree: int) -> list[FabricCandidate]:
        """Return the fabrics of `nodes` and `degree` that are Pareto-efficient in steps and bandwidth time.

        By rising steps; bandwidth time is that of reduce-scatter and allgather together.
        """
        return pareto(self._useful(nodes, degree))

    def candidates(self, nodes: int, degree: int) -> list[FabricCandidate]:
        """Return all candidates of `nodes` and `degree`, each once, the cheapest first."""
        found = {one.construction: one for one in self._candidates(nodes, degree)}
        return sorted(found.values(), key=attrgetter("cost"))

    def hopeful(self, nodes: int, degree: int) -> list[FabricCandidate]:
        """Return candidates beyond the frontier that may beat it once measured, by rising predictions.

        Their values are upper bounds, such as those of line graphs of bases without
        bidirectional links; nothing else of as few steps or fewer is known to be bandwidth-optimal.

        Parameters
        ----------
        nodes, degree : int
        """
        kept = self.frontier(nodes, degree)
        best = [found.steps for found in kept if found.is_bandwidth_optimal]
        known = {found.construction for found in kept}
        hopes = {
            found.construction: found
            for found in self._candidates(nodes, degree)
            if not (found.is_exact or found.construction in known or found.steps >= min(best, default=nodes))
        }
        return sorted(hopes.values(), key=attrgetter("cost"))[:_MOST_HOPEFUL]

    def _useful(self, nodes: int, degree: int) -> list[FabricCandidate]:
        """Return the candidates to expand; recursion ends because nodes or degree shrink."""
        place = nodes, degree
        if place not in self._kept:
            # loops rule out degree expansion, asymmetry the reverse
            self._kept[place] = pareto(
                self._candidates(nodes, degree),
                lambda one: (*one.cost, one.gather.has_loops, not one.is_reverse_symmetric),
            )
        return self._kept[place]

    def _candidates(self, nodes: int, degree: int) -> Iterator[FabricCandidate]:
        yield from self._bases(nodes, degree)
        if (factor := self._factor(nodes, degree)) is not None:
            yield factor
        for times in divisors(degree)[1:]:
            for part in self._useful(nodes, degree // times):
                if not isinstance(part.construction, Parallel):  # that one has all its links at once
                    yield parallel_of(part, times)
        if not self._bidirectional and degree > 1 and nodes % degree == 0 and nodes // degree > 1:
            for part in self._useful(nodes // degree, degree):
                yield line_graph_of(part)
        for copies in divisors(gcd(nodes, degree))[1:]:
            if nodes // copies > 1:
                for part in self._useful(nodes // copies, degree // copies):
                    if not part.gather.has_loops:
                        yield degree_expansion_of(part, copies)
        for root, exponent in _roots(nodes):
            if degree % exponent == 0:
                for part in self._useful(root, degree // exponent):
                    yield power_of(part, exponent)
        if self._bidirectional and degree % 2 == 0:
            for part in self._one_way._useful(nodes, degree // 2):
                if part.is_reverse_symmetric:
                    yield with_reverse_of(part)

    def _factor(self, nodes: int, degree: int) -> FabricCandidate | None:
        """Return the candidate with the fewest steps of those that Theorem 13 lets multiply."""
        place = nodes, degree
        if place not in self._factors:
            self._factors[place] = self._best_factor(nodes, degree)
        return self._factors[place]

    def _best_factor(self, nodes: int, degree: int) -> FabricCandidate | None:
        best: FabricCandidate | None = None
        for base in self._bases(nodes, degree):
            figures = base.gather
            fits = figures.is_simple and figures.is_breadth_first and base.is_bandwidth_optimal
            if fits and (best is None or base.steps < best.steps):
                best = base
        pair: tuple[FabricCandidate, FabricCandidate] | None = None
        fewest = nodes if best is None else best.steps
        for part in divisors(nodes)[1:]:
            if part * part > nodes or part == nodes:
                break
            for share in range(1, degree):
                one = self._factor(part, share)
                other = self._factor(nodes // part, degree - share) if one is not None else None
                if one is not None and other is not None and one.steps + other.steps < fewest:
                    pair, fewest = (one, other), one.steps + other.steps
        return best if pair is None else product_of(*pair)


def _roots(number: int) -> Iterator[tuple[int, int]]:
    """Yield every (r, k) with r**k = number and k > 1."""
    for exponent in range(2, number.bit_length()):
        root = round(number ** (1 / exponent))
        if root > 1 and root**exponent == number:
            yield root, exponent
