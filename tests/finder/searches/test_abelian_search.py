"""The search of abelian Cayley digraphs: against all sets of small groups, and against values made anew."""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest

from treadle.errors import TopologyError
from treadle.finder.searches.abelian_search import (
    AbelianSet,
    least_abelian_steps,
    search_abelian,
)
from treadle.finder.searches.cayley_groups import abelian_moduli
from treadle.finder.searches.cayley_library import check_entry
from treadle.finder.searches.cayley_value import cayley_value, load_scale
from treadle.topologies.catalogue.cayley import cayley_graph


def _all_points(n: int, degree: int, two_way: bool) -> set[tuple[int, int]]:
    """Steps and cost of every generator set of every abelian group of order `n`."""
    points = set()
    for moduli in abelian_moduli(n):
        for generators in combinations_with_replacement(range(1, n), degree):
            one = AbelianSet(moduli, generators, 0, 0)
            if two_way and not one.is_bidirectional:
                continue
            try:
                value = cayley_value(cayley_graph(one.expression))
            except TopologyError:  # some node is not reached
                continue
            points.add((value.t_l, int(sum(value.allgather_loads) * load_scale(degree))))
    return points


def _front(points: set[tuple[int, int]]) -> list[tuple[int, int]]:
    return sorted(p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points))


@pytest.mark.parametrize(
    ("n", "degree", "two_way"),
    [(8, 2, False), (9, 3, False), (12, 2, False), (8, 3, True), (12, 4, True)],
)
def test_small_groups_are_searched_to_the_end(n: int, degree: int, two_way: bool) -> None:
    found = search_abelian(n, degree, work=300_000, two_way=two_way).entries
    assert [(one.steps, one.cost) for one in found] == _front(_all_points(n, degree, two_way))


@pytest.mark.parametrize(
    ("n", "degree", "two_way"),
    [
        (97, 4, False),
        (100, 5, True),
        (64, 8, True),
        (130, 3, False),
        (96, 6, True),
        (128, 7, True),
        (61, 2, False),
    ],
)
def test_values_are_those_of_the_graphs(n: int, degree: int, two_way: bool) -> None:
    found = search_abelian(n, degree, work=200_000, seed=3, two_way=two_way)
    assert found.tried > 0
    assert found.entries
    for one in found.entries:
        check_entry(one.entry)
        assert one.is_bidirectional or not two_way
        assert one.steps >= least_abelian_steps(n, degree, two_way=two_way)


def test_a_search_is_repeatable_and_goes_on_from_what_is_known() -> None:
    first, again, other = (search_abelian(120, 4, work=50_000, seed=seed).entries for seed in (1, 1, 2))
    assert first == again
    best = search_abelian(120, 4, work=1, seed=5, starts=(*first, *other)).entries
    for one in (*first, *other):
        assert any(kept.steps <= one.steps and kept.cost <= one.cost for kept in best)
