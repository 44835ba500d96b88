"""The search of abelian Cayley digraphs: against all sets of small groups, and against values made anew."""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest

from treadle.errors import TopologyError
from treadle.finder.searches.abelian_search import (
    AbelianSet,
    inverse,
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


@pytest.mark.parametrize(("degree", "two_way"), [(1, False), (2, False), (3, False), (4, True), (5, True)])
def test_fewest_steps_count_words_without_order(degree: int, two_way: bool) -> None:
    """Exponents of the generators, of either sign in pairs and 0 or 1 of an involution, by brute force."""
    free = degree // 2 if two_way else degree

    def within(steps: int) -> int:
        levels = [1] + [0] * steps
        for _ in range(free):
            levels = [
                sum(levels[at - k] * (2 if two_way and k else 1) for k in range(at + 1))
                for at in range(steps + 1)
            ]
        total = sum(levels)
        return total + (sum(levels[:-1]) if two_way and degree % 2 else 0)

    for n in (2, 5, 7, 13, 25, 41, 100):
        steps = least_abelian_steps(n, degree, two_way=two_way)
        assert within(steps) >= n
        assert steps == 0 or within(steps - 1) < n


@pytest.mark.parametrize("moduli", [(12,), (6, 2), (4, 4, 2)])
def test_inverses_are_those_of_the_group(moduli: tuple[int, ...]) -> None:
    words = "x".join(map(str, moduli))
    generators = ", ".join(str(i) for i in range(1, 12))
    group = cayley_graph(f'abelian_cayley("{words}", {generators})').group
    for element in range(group.order):
        assert inverse(element, moduli) == int(group.inverse([element])[0])


@pytest.mark.parametrize(("n", "degree", "work"), [(1, 4, 10), (5000, 4, 10), (64, 9, 10), (64, 4, 0)])
def test_what_cannot_be_searched_is_refused(n: int, degree: int, work: int) -> None:
    with pytest.raises(TopologyError, match="search_abelian"):
        search_abelian(n, degree, work=work)
