"""Bottom-up Pareto search over bases and expansions (dissertation, section 3.5.4).

A candidate is a fabric with N nodes of degree d and a schedule, known by predicted figures only: the theorems
of section A.4 say what every expansion makes of steps and bandwidth time, so that nothing is built here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd, isqrt

from treadle.finder.construction import (
    Construction,
    DegreeExpansion,
    LineGraph,
    Parallel,
    Power,
    Product,
    WithReverse,
)

Bases = Callable[[int, int], Iterable["Candidate"]]
"""bases(nodes, degree): every known base of that size."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A fabric and its schedule, by predicted figures.

    Parameters
    ----------
    nodes, degree : int
        N and d; self-loops and parallel links count in d.
    steps : int
        T_L / alpha of an allgather, and of a reduce-scatter.
    t_b, t_b_reduce : Fraction
        T_B of the allgather and of the reduce-scatter, in M/B. With `is_exact` false: at most so much.
    construction : Construction
    is_breadth_first : bool
        Both schedules are optimal breadth-first broadcasts on the graph.
    is_simple : bool
        No loops and no parallel links.
    has_loops : bool
    is_bidirectional : bool
        Links come in opposite pairs.
    is_reverse_symmetric : bool
        Known to be isomorphic to its transpose (Definition 6).
    fans_out : bool
        Every node has more than one out-neighbour.
    is_exact : bool
        The figures are those of the schedule; else it is at least as good.
    """

    nodes: int
    degree: int
    steps: int
    t_b: Fraction
    t_b_reduce: Fraction
    construction: Construction
    is_breadth_first: bool = True
    is_simple: bool = True
    has_loops: bool = False
    is_bidirectional: bool = False
    is_reverse_symmetric: bool = False
    fans_out: bool = True
    is_exact: bool = True

    @property
    def t_b_both(self) -> Fraction:
        """T_B of reduce-scatter and allgather together: that of an allreduce, in M/B."""
        return self.t_b + self.t_b_reduce

    @property
    def is_bandwidth_optimal(self) -> bool:
        """T_B = (N - 1) / N both ways (Theorem 4)."""
        return self.t_b == self.t_b_reduce == Fraction(self.nodes - 1, self.nodes)


def line_graph_of(base: Candidate, times: int = 1) -> Candidate:
    """L^times: Theorem 7, and Theorem 10 where the schedule is breadth-first.

    The addition of 1/N is exact for breadth-first schedules where every node has more than one neighbour;
    otherwise it is an upper bound.
    """
    n, d = base.nodes, base.degree
    growth = sum((Fraction(1, n * d**i) for i in range(times)), Fraction(0))
    return replace(
        base,
        nodes=n * d**times,
        steps=base.steps + times,
        t_b=base.t_b + growth,
        t_b_reduce=base.t_b_reduce + growth,
        construction=LineGraph(base.construction, times),
        is_simple=not base.has_loops,  # parallel links have become different nodes
        is_bidirectional=False,
        fans_out=d > 1,
        is_exact=base.is_exact and base.is_breadth_first and base.fans_out,
    )


def degree_expansion_of(base: Candidate, copies: int) -> Candidate:
    """G * copies: Theorem 11, exact. `base` must have no self-loops."""
    growth = Fraction(copies - 1, copies * base.nodes)
    return replace(
        base,
        nodes=base.nodes * copies,
        degree=base.degree * copies,
        steps=base.steps + 1,
        t_b=base.t_b + growth,
        t_b_reduce=base.t_b_reduce + growth,
        construction=DegreeExpansion(base.construction, copies),
        is_breadth_first=False,
        fans_out=True,
    )


def power_of(base: Candidate, exponent: int) -> Candidate:
    """Cartesian power: Theorem 12, exact."""
    n = base.nodes
    factor = Fraction(n, n - 1) * Fraction(n**exponent - 1, n**exponent)
    return replace(
        base,
        nodes=n**exponent,
        degree=base.degree * exponent,
        steps=base.steps * exponent,
        t_b=base.t_b * factor,
        t_b_reduce=base.t_b_reduce * factor,
        construction=Power(base.construction, exponent),
        is_breadth_first=False,
        fans_out=True,
    )


def product_of(factors: Iterable[Candidate]) -> Candidate:
    """Cartesian product: Theorem 13, exact. Factors: simple, breadth-first, bandwidth-optimal."""
    parts = tuple(factors)
    nodes = 1
    for part in parts:
        nodes *= part.nodes
    optimum = Fraction(nodes - 1, nodes)
    return Candidate(
        nodes=nodes,
        degree=sum(part.degree for part in parts),
        steps=sum(part.steps for part in parts),
        t_b=optimum,
        t_b_reduce=optimum,
        construction=_product(parts),
        is_bidirectional=all(part.is_bidirectional for part in parts),
        is_reverse_symmetric=all(part.is_reverse_symmetric for part in parts),
    )


def _product(parts: tuple[Candidate, ...]) -> Construction:
    factors: list[Construction] = []
    for part in parts:
        inner = part.construction
        factors += inner.factors if isinstance(inner, Product) else [inner]
    return Product(tuple(sorted(factors, key=repr)))


def parallel_of(base: Candidate, times: int) -> Candidate:
    """Every link `times` times over: the same steps and, in M/B, the same bandwidth time."""
    return replace(
        base,
        degree=base.degree * times,
        construction=Parallel(base.construction, times),
        is_simple=False,
    )


def with_reverse_of(base: Candidate) -> Candidate:
    """G and its transpose at once (section A.1.6), exact where G is reverse-symmetric."""
    return replace(
        base,
        degree=base.degree * 2,
        construction=WithReverse(base.construction),
        is_breadth_first=False,
        is_simple=False,
        is_bidirectional=True,
        is_exact=base.is_exact and base.is_reverse_symmetric,
    )


Key = Callable[[Candidate], tuple[int | Fraction, ...]]


def pareto(candidates: Iterable[Candidate], key: Key) -> list[Candidate]:
    """Candidates that no other one beats: not worse in every entry of `key`, by rising key.

    Of equals the first stays.
    """
    kept: list[tuple[tuple[int | Fraction, ...], Candidate]] = []
    for values, candidate in sorted(((key(c), c) for c in candidates), key=lambda pair: pair[0]):
        if not any(_is_at_most(other, values) for other, _ in kept):
            kept.append((values, candidate))
    return [candidate for _, candidate in kept]


def _is_at_most(one: tuple[int | Fraction, ...], other: tuple[int | Fraction, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


def _figures(candidate: Candidate) -> tuple[int | Fraction, ...]:
    """What a user sees."""
    return candidate.steps, candidate.t_b_both


def _usefulness(candidate: Candidate) -> tuple[int | Fraction, ...]:
    """What matters to further expansions: loops rule out degree expansion, asymmetry the reverse."""
    return (*_figures(candidate), candidate.has_loops, not candidate.is_reverse_symmetric)


class Finder:
    """Frontiers of all sizes asked for, each computed once.

    Parameters
    ----------
    bases : callable
        bases(nodes, degree), in the order of preference among equals.
    bidirectional : bool
        Only fabrics whose links come in opposite pairs.
    """

    def __init__(self, bases: Bases, *, bidirectional: bool = False) -> None:
        self._bases = bases
        self._bidirectional = bidirectional
        self._kept: dict[tuple[int, int], list[Candidate]] = {}
        self._factors: dict[tuple[int, int], Candidate | None] = {}
        self._one_way = Finder(bases) if bidirectional else self

    def frontier(self, nodes: int, degree: int) -> list[Candidate]:
        """Fabrics of `nodes` and `degree` that are Pareto-efficient in steps and bandwidth time.

        By rising steps; bandwidth time is that of reduce-scatter and allgather together.
        """
        return pareto(self._useful(nodes, degree), _figures)

    def _useful(self, nodes: int, degree: int) -> list[Candidate]:
        """The candidates worth expanding; recursion ends because nodes or degree shrink."""
        place = nodes, degree
        if place not in self._kept:
            self._kept[place] = pareto(self._candidates(nodes, degree), _usefulness)
        return self._kept[place]

    def _candidates(self, nodes: int, degree: int) -> Iterator[Candidate]:
        yield from self._usable_bases(nodes, degree)
        factor = self._factor(nodes, degree)
        if factor is not None:
            yield factor
        for times in _divisors(degree):
            for part in self._useful(nodes, degree // times):
                yield parallel_of(part, times)
        if not self._bidirectional and degree > 1 and nodes % degree == 0 and nodes // degree > 1:
            for part in self._useful(nodes // degree, degree):
                yield _line_graph(part)
        for copies in _divisors(gcd(nodes, degree)):
            if nodes // copies > 1:
                for part in self._useful(nodes // copies, degree // copies):
                    if not part.has_loops:
                        yield degree_expansion_of(part, copies)
        for root, exponent in _roots(nodes):
            if degree % exponent == 0:
                for part in self._useful(root, degree // exponent):
                    yield power_of(part, exponent)
        if self._bidirectional and degree % 2 == 0:
            for part in self._one_way._useful(nodes, degree // 2):
                if part.is_reverse_symmetric:
                    yield with_reverse_of(part)

    def _usable_bases(self, nodes: int, degree: int) -> Iterator[Candidate]:
        for base in self._bases(nodes, degree):
            if base.is_bidirectional or not self._bidirectional:
                yield base

    def _factor(self, nodes: int, degree: int) -> Candidate | None:
        """The candidate with the fewest steps of those that Theorem 13 lets multiply."""
        place = nodes, degree
        if place not in self._factors:
            self._factors[place] = min(
                self._possible_factors(nodes, degree), key=lambda c: c.steps, default=None
            )
        return self._factors[place]

    def _possible_factors(self, nodes: int, degree: int) -> Iterator[Candidate]:
        for base in self._usable_bases(nodes, degree):
            if base.is_simple and base.is_breadth_first and base.is_bandwidth_optimal:
                yield base
        for part in _divisors(nodes):
            if part * part > nodes:
                break
            for share in range(1, degree):
                one = self._factor(part, share)
                other = self._factor(nodes // part, degree - share) if one is not None else None
                if one is not None and other is not None and nodes > part:
                    yield product_of((one, other))


def _line_graph(part: Candidate) -> Candidate:
    """L(part), written as a higher line graph where part is one already."""
    found = line_graph_of(part)
    match part.construction:
        case LineGraph(of, times):
            return replace(found, construction=LineGraph(of, times + 1))
    return found


def _divisors(number: int) -> list[int]:
    """Divisors of `number` but 1, ascending."""
    low = [i for i in range(1, isqrt(number) + 1) if number % i == 0]
    return sorted({*low[1:], *(number // i for i in low)} - {1})


def _roots(number: int) -> Iterator[tuple[int, int]]:
    """Every (r, k) with r**k = number and k > 1."""
    for exponent in range(2, number.bit_length()):
        root = round(number ** (1 / exponent))
        if root > 1 and root**exponent == number:
            yield root, exponent
