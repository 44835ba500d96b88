"""Bases with formulas for their values: graphs of table A.3. The others are in `treadle.finder.tables`."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import isqrt
from typing import Any

from treadle.finder.construction import Base, ScheduleMethod, construction_of, join_name
from treadle.finder.search import FabricCandidate, graph_candidate

_DISTANCE_REGULAR = {
    **{6: 2, 9: 2, 10: 3, 14: 3, 15: 3, 16: 4, 21: 3, 26: 3},
    **{32: 4, 35: 3, 45: 4, 70: 7, 80: 4, 189: 6, 728: 6},
}
"""Diameter of the degree-4 distance-regular graph of each size (table A.2)."""


_EXACT = (
    (8, 2, "diamond()", 3, False),
    (8, 2, "modified_de_bruijn(2, 3)", 4, True),
    (9, 3, "modified_de_bruijn(3, 2)", 3, False),
    (16, 4, "modified_de_bruijn(4, 2)", 3, False),
    (16, 2, "modified_de_bruijn(2, 4)", 5, False),
)
"""Nodes, degree, expression, steps and reverse symmetry of the bandwidth-optimal bases whose schedules come
from exact synthesis (table A.3)."""


def formula_bases(n: int, d: int) -> Iterator[FabricCandidate]:
    """Return every base of `n` nodes of degree `d` with a formula for its values, the simplest first."""
    if n < 2 or d < 1:
        return

    def optimal(
        expression: str, notation: str, family: str, steps: int, *, is_two_way: bool = True, **about: Any
    ) -> FabricCandidate:
        base = Base(expression, notation, ScheduleMethod.BFB, family)
        return bandwidth_optimal(base, n, d, steps, is_bidirectional=is_two_way, **about)

    # complete, complete bipartite, directed circulant of d + 2 nodes: Moore- and bandwidth-optimal
    if n == d + 1:
        yield optimal(f"complete({n})", f"K{n}", "complete", 1)
    if n == 2 * d and d > 1:
        yield optimal(f"complete_bipartite({d}, {d})", f"K{d},{d}", "bipartite", 2)
    if n == d + 2 and d > 1:
        offsets = ", ".join(map(str, range(1, d + 1)))
        call, name = f"directed_circulant({n}, {offsets})", f"DiC({n},{{{join_name(offsets)}}})"
        yield optimal(call, name, "directed circulant", 2, is_two_way=False)
    # rings: bandwidth-optimal for any size (section A.6.1); parallel links come from `parallel_of`
    if d == 2 and n >= 3:
        yield optimal(f"bi_ring(2, {n})", f"BiRing(2,{n})", "ring", n // 2)
    if d == 1:
        yield optimal(f"uni_ring(1, {n})", f"UniRing(1,{n})", "ring", n - 1, is_two_way=n == 2, cycle=n)
    # C(n, {m, m + 1}): the least diameter of degree-4 circulants, bandwidth-optimal (section A.6.4)
    if d == 4 and n > 6:
        m = least_circulant_diameter(n)
        call, name = f"circulant({n}, {m}, {m + 1})", f"C({n},{{{m},{m + 1}}})"
        # with 2 (m + 1) >= n an offset meets its own or the other's opposite, and links are parallel
        yield optimal(call, name, "circulant", m, is_simple=2 * (m + 1) < n)
    # bandwidth-optimal by Theorem 18 (section A.6.3)
    if d == 4 and n in _DISTANCE_REGULAR:
        call, name = f"distance_regular(4, {n})", f"DistReg(4,{n})"
        yield optimal(call, name, "distance-regular", _DISTANCE_REGULAR[n])
    for *size, call, steps, symmetric in _EXACT:
        if size == [n, d]:
            base = construction_of(call)
            assert isinstance(base, Base), "these calls are no expansions"
            yield bandwidth_optimal(base, n, d, steps, is_reverse_symmetric=symmetric)


def bandwidth_optimal(
    base: Base,
    nodes: int,
    degree: int,
    steps: int,
    *,
    is_bidirectional: bool = False,
    is_simple: bool = True,
    cycle: int | None = None,
    is_reverse_symmetric: bool = True,
) -> FabricCandidate:
    """Make a base whose schedules are bandwidth-optimal in both directions.

    Line graphs of bidirectional ones with two neighbours meet Theorem 7 exactly (`treadle.finder.predict`).
    """
    t_b, is_breadth_first = Fraction(nodes - 1, nodes), base.scheduler is ScheduleMethod.BFB
    return graph_candidate(
        *(base, nodes, degree, steps, t_b, t_b),
        is_bidirectional=is_bidirectional,
        cycle=cycle,
        is_breadth_first=is_breadth_first,
        is_simple=is_simple,
        has_exact_line_graphs=is_bidirectional and nodes > 2 and is_breadth_first,
        is_reverse_symmetric=is_reverse_symmetric,
    )


def least_circulant_diameter(n: int) -> int:
    """Return ceil((sqrt(2n - 1) - 1) / 2) (theorem 22): the least m with (2m + 1)**2 >= 2n - 1.

    Examples
    --------
    >>> [least_circulant_diameter(n) for n in (7, 12, 16, 1024)]
    [2, 2, 3, 23]
    """
    return (isqrt(2 * n - 2) + 1) // 2
