"""The known bases: graphs of table A.3 with their exact figures, and those found by search.

Closed forms are the dissertation's (cited below); the other figures are data that `treadle.finder.tables`
computed, both for the graph and for its transpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import isqrt

from treadle.finder.construction import Base, Scheduler
from treadle.finder.search import Candidate
from treadle.finder.tables import Tables


def known_bases(tables: Tables, nodes: int, degree: int) -> Iterator[Candidate]:
    """Every base with `nodes` and `degree`, the plainest first.

    Parameters
    ----------
    tables : Tables
        Figures that have no closed form.
    nodes, degree : int
    """
    if nodes < 2 or degree < 1:
        return
    yield from _dense(nodes, degree)
    yield from _rings(nodes, degree)
    yield from _circulants(nodes, degree)
    yield from tables.bases(nodes, degree)


def _optimal(nodes: int, degree: int, steps: int, base: Base, **flags: bool) -> Candidate:
    """A bandwidth-optimal base."""
    optimum = Fraction(nodes - 1, nodes)
    return Candidate(nodes, degree, steps, optimum, optimum, base, is_reverse_symmetric=True, **flags)


def _base(expression: str, notation: str, family: str) -> Base:
    return Base(expression, notation, Scheduler.BFB, family)


def _dense(n: int, d: int) -> Iterator[Candidate]:
    """Complete, complete bipartite, directed circulant of d + 2 nodes: Moore- and bandwidth-optimal."""
    if n == d + 1:
        base = _base(f"complete({n})", f"K{n}", "complete")
        yield _optimal(n, d, 1, base, is_bidirectional=True, fans_out=d > 1)
    if n == 2 * d and d > 1:
        base = _base(f"complete_bipartite({d}, {d})", f"K{d},{d}", "bipartite")
        yield _optimal(n, d, 2, base, is_bidirectional=True)
    if n == d + 2 and d > 1:
        offsets = ", ".join(map(str, range(1, d + 1)))
        name = f"DiC({n},{{{offsets.replace(' ', '')}}})"
        yield _optimal(n, d, 2, _base(f"directed_circulant({n}, {offsets})", name, "directed circulant"))


def _rings(n: int, d: int) -> Iterator[Candidate]:
    """Rings with parallel links; bandwidth-optimal for any size (section A.6.1)."""
    if d % 2 == 0 and n >= 3:
        base = _base(f"bi_ring({d}, {n})", f"BiRing({d},{n})", "ring")
        yield _optimal(n, d, n // 2, base, is_bidirectional=True, is_simple=d == 2)
    if n >= 2 and d == 1:  # more links in parallel come from `parallel_of`
        base = _base(f"uni_ring(1, {n})", f"UniRing(1,{n})", "ring")
        yield _optimal(n, 1, n - 1, base, is_bidirectional=n == 2, fans_out=False)
    elif n >= 2:
        base = _base(f"uni_ring({d}, {n})", f"UniRing({d},{n})", "ring")
        flags = {"is_bidirectional": n == 2, "fans_out": False, "is_simple": False}
        yield _optimal(n, d, n - 1, base, **flags)


def _circulants(n: int, d: int) -> Iterator[Candidate]:
    """C(n, {m, m + 1}): the least diameter of degree-4 circulants, bandwidth-optimal (section A.6.4)."""
    if d == 4 and n > 6:
        m = least_circulant_diameter(n)
        base = _base(f"circulant({n}, {m}, {m + 1})", f"C({n},{{{m},{m + 1}}})", "circulant")
        # offsets that are opposite (2m + 1 = n) or equal to n / 2 would make links parallel
        yield _optimal(n, d, m, base, is_bidirectional=True, is_simple=2 * (m + 1) < n)


def least_circulant_diameter(n: int) -> int:
    """ceil((sqrt(2n - 1) - 1) / 2), in integers (theorem 22): the least m with (2m + 1)**2 >= 2n - 1.

    Examples
    --------
    >>> [least_circulant_diameter(n) for n in (7, 12, 16, 1024)]
    [2, 2, 3, 23]
    """
    return (isqrt(2 * n - 2) + 1) // 2
