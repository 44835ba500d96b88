"""What searches share, by hand: pools, costs, groups, sizes, links that exchange heads, libraries."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from treadle.context import Context, under
from treadle.errors import FormatError, ScheduleError, TopologyError
from treadle.finder.searches import candidates, fresh
from treadle.finder.searches.abelian_search import AbelianSet, search_abelian
from treadle.finder.searches.candidates import (
    FAR,
    NONE,
    GeneratorSet,
    bars,
    offer,
    scores,
)
from treadle.finder.searches.cayley_groups import NamedGroup, abelian_moduli, groups_of_order
from treadle.finder.searches.cayley_library import LibraryEntry, LineGraphEntry, pareto_entries
from treadle.finder.searches.cayley_search import _CayleySearch, least_steps, search_cayley
from treadle.finder.searches.fresh import SearchLimit
from treadle.finder.searches.link_swaps import SwapStart, exchanges, expression_of, opposites, random_start
from treadle.finder.searches.neighbour_search import neighbour_trials
from treadle.finder.searches.neighbour_table import NeighbourTable, parsed_entry
from treadle.topologies import parse
from treadle.topologies.catalogue.finite_groups import FiniteGroup, abelian_group, metacyclic_group


def test_costs_of_sets_for_a_target() -> None:
    """A node beyond the target, or not reached at all, outweighs all loads."""
    distance = np.array([[0, 1, 2, 3], [0, 1, 1, 2], [0, -1, 1, 9]])
    costs = np.array([5, 6, 7])
    assert scores(distance, 2, costs).tolist() == [FAR, 6, 2 * FAR]
    assert scores(distance, 3, costs).tolist() == [5, 6, 2 * FAR]
    assert FAR == 10**14


def test_pools_keep_eight_and_three_of_a_group() -> None:
    pool: list[GeneratorSet] = []
    sets = np.arange(12).reshape(6, 2)
    offer(pool, 7, sets, np.arange(6), np.array([9, 4, 8, 4, 6, 7]))
    assert pool == [
        GeneratorSet(4, 7, (2, 3), 1),
        GeneratorSet(4, 7, (6, 7), 3),
        GeneratorSet(6, 7, (8, 9), 4),
    ]
    assert [one.t_l for one in pool] == [1, 3, 4]
    for group in range(3):
        offer(pool, group, sets, np.arange(6), np.array([5, 5, 5, 9, 9, 9]) + group)
    assert [(one.cost, one.group) for one in pool] == [
        *((4, 7), (4, 7), (5, 0), (5, 0), (5, 0), (6, 1), (6, 1), (6, 1)),
    ]
    before = list(pool)
    offer(pool, 9, sets, np.arange(6), np.full(6, 6))
    assert pool == before


def test_bars_are_the_worst_of_full_pools() -> None:
    """A set of few steps counts for every target from there on: the highest bar decides."""
    full = [GeneratorSet(cost, cost, (1,), 0) for cost in range(1, 9)]
    pools = {2: full, 3: full[:3], 5: [GeneratorSet(cost, cost, (1,), 0) for cost in range(21, 29)]}
    assert bars(pools, [2, 3, 5]).tolist() == [NONE, NONE, NONE, NONE, 28, 28]
    assert bars({2: full, 3: full}, [2, 3]).tolist() == [8, 8, 8, 8]


def test_a_search_is_over_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 10.0)
    for deadline, is_over in ((None, False), (10.0, False), (9.9, True)):
        with under(Context(None, deadline)):
            assert candidates.is_over() is is_over


def test_sets_change_in_a_generator_or_two_and_never_hold_the_identity() -> None:
    search = _CayleySearch(5, 3, 1, bidirectional=False)
    sets = search._changed_sets(GeneratorSet(0, 0, (1, 2, 3), 2))
    assert sets.shape == (search.block, 3)
    changed = (sets != [1, 2, 3]).sum(axis=1)
    assert set(changed.tolist()) == {0, 1, 2}
    for column in sets.T:
        assert set(column.tolist()) == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("n", "degree", "one_way", "two_way"),
    [
        *(
            (1, 3, 0, 0),
            (4, 3, 1, 1),
            (5, 3, 2, 2),
            (10, 3, 2, 2),
            (11, 3, 2, 3),
            (13, 3, 2, 3),
            (14, 3, 3, 3),
        ),
        *((5, 2, 2, 2), (6, 1, 5, 5), (2, 1, 1, 1), (7, 2, 2, 3)),
    ],
)
def test_fewest_steps(n: int, degree: int, one_way: int, two_way: int) -> None:
    """1 + 3 + 9 nodes within two steps; 1 + 3 + 6 where links come in pairs."""
    assert least_steps(n, degree) == one_way
    assert least_steps(n, degree, bidirectional=True) == two_way


def test_abelian_groups_of_an_order() -> None:
    assert abelian_moduli(1) == ((),)
    assert abelian_moduli(7) == ((7,),)
    assert set(abelian_moduli(16)) == {(2, 2, 2, 2), (4, 2, 2), (4, 4), (8, 2), (16,)}
    assert set(abelian_moduli(36)) == {(6, 6), (12, 3), (18, 2), (36,)}


def test_groups_of_small_orders_by_name() -> None:
    """Of 8: three abelian, two dihedral-like by -1 and quaternions; of a prime only the cyclic one."""
    assert [one.prefix for one in groups_of_order(7, seed=0)] == ['abelian_cayley("7"']
    found = {one.prefix: one.group for one in groups_of_order(8, seed=0)}
    assert list(found)[:5] == [
        'abelian_cayley("2x2x2"',
        'abelian_cayley("4x2"',
        'abelian_cayley("8"',
        "metacyclic_cayley(4, 2, 3",
        'extension_cayley("4", "3", "2", 2',
    ]
    assert found["metacyclic_cayley(4, 2, 3"] == metacyclic_group(4, 2, 3)
    assert found['extension_cayley("4", "3", "2", 2'] == FiniteGroup((4,), 2, ((3,),), (2,))
    six = [one.prefix for one in groups_of_order(6, seed=0)]
    assert six == ['abelian_cayley("6"', "metacyclic_cayley(3, 2, 2"]
    twenty = {one.prefix for one in groups_of_order(20, seed=0) if one.prefix.startswith("metacyclic")}
    assert twenty == {"metacyclic_cayley(5, 4, 2", "metacyclic_cayley(5, 4, 4", "metacyclic_cayley(10, 2, 9"}
    assert NamedGroup("x_cayley(3", abelian_group(3)).expression((1, 2)) == "x_cayley(3, 1, 2)"
    for one in groups_of_order(32, seed=4):
        assert one.group.order == 32
        again = parse(one.expression(tuple(range(1, 32))))
        assert again.n_nodes == 32


@pytest.mark.parametrize("facts", [{}, {"seconds": 1.0, "sets": 1}])
def test_one_limit_of_two(facts: dict[str, Any]) -> None:
    with pytest.raises(ScheduleError, match="search: expected either a time or a number of sets"):
        SearchLimit(**facts)


def test_limits_at_their_limits() -> None:
    assert SearchLimit(seconds=10.0**9).sets is None
    assert SearchLimit(sets=1).seconds is None
    for facts in ({"seconds": 0.0}, {"sets": 0}, {"sets": 10**9 + 1}, {"seconds": -1.0}):
        with pytest.raises(
            ScheduleError, match="search: expected a time or a number of sets up to 1000000000"
        ):
            SearchLimit(**facts)


@pytest.mark.parametrize(
    ("nodes", "degree", "powers"),
    [
        *((16, 2, (1, 2, 3)), (8, 2, (1, 2)), (4, 2, (1,)), (2, 2, ()), (18, 3, (1, 2)), (9, 2, ())),
        *((2048, 2, (1, 2, 3)), (2050, 2, ()), (16, 1, ()), (8 * 1024, 8, (1, 2, 3)), (27, 9, ())),
    ],
)
def test_powers_whose_bases_can_be_searched(nodes: int, degree: int, powers: tuple[int, ...]) -> None:
    assert fresh._powers(nodes, degree) == powers


def test_how_many_neighbours_are_judged() -> None:
    assert neighbour_trials(10, 4, 20 * 100 * 9) == 9
    assert neighbour_trials(10, 4, 20 * 100 * 9 - 1) == 8
    assert neighbour_trials(10, 4, 0) == 8
    assert neighbour_trials(10, 4, 20 * 100 * 4001) == 4000


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def test_opposite_links_are_paired_off() -> None:
    assert opposites(ints(0, 1, 0, 1, 2, 2, 1), ints(1, 0, 1, 0, 2, 2, 2)).tolist() == [1, 0, 3, 2, 5, 4, -1]
    assert opposites(ints(0, 0, 1), ints(1, 1, 0)).tolist() == [2, -1, 0]


def test_exchanges_lead_from_one_order_to_another() -> None:
    rng = random.Random(5)
    for _ in range(50):
        heads = [rng.randrange(4) for _ in range(9)]
        wanted = rng.sample(heads, 9)
        now = list(heads)
        pairs = exchanges(heads, wanted)
        for one, other in zip(pairs[::2], pairs[1::2], strict=True):
            now[one], now[other] = now[other], now[one]
        assert now == wanted
        assert len(pairs) // 2 <= max(sum(a != b for a, b in zip(heads, wanted, strict=True)) - 1, 0)
    assert exchanges([0, 1, 2], [1, 0, 2]) == [0, 1]
    assert exchanges([0, 1], [0, 1]) == []


def test_starts_and_their_expressions() -> None:
    """What is done to the base is written as it was done: the expression makes the very heads."""
    base = parse("directed_circulant(7, 1, 2)")
    rng = random.Random(3)
    for more in (-2, -1, 0, 1, 2):
        start = random_start(base, more, rng)
        while start is None:
            start = random_start(base, more, rng)
        assert (start.nodes, start.degree, len(start.deleted)) == (7 + more, 2, max(-more, 0))
        assert len(start.heads) == 2 * start.nodes
        assert np.bincount(start.heads, minlength=start.nodes).tolist() == [2] * start.nodes
        made = parse(expression_of(start, start.heads))
        assert (made.tails.tolist(), made.heads.tolist()) == (start.tails.tolist(), start.heads.tolist())
    plain = random_start(base, 0, rng)
    assert plain is not None
    assert expression_of(plain, plain.heads) == base.name
    swapped = plain.heads.copy()
    swapped[[0, 5]] = swapped[[5, 0]]
    assert expression_of(plain, swapped) == "with_exchanged_heads(directed_circulant(7, 1, 2), 0, 5)"
    assert random_start(parse("de_bruijn(2, 3)"), -1, rng) is None
    ring = parse("bi_ring(2, 6)")
    for more in (-1, 1, 2):
        two_way = random_start(ring, more, rng, two_way=True)
        while two_way is None:
            two_way = random_start(ring, more, rng, two_way=True)
        assert two_way.is_two_way
        assert (opposites(two_way.tails, two_way.heads) >= 0).all()
    assert isinstance(plain, SwapStart)
    assert not plain.is_two_way


def entry(nodes: int, t_l: int, t_b: int, name: str, *, both: bool = False, degree: int = 2) -> LibraryEntry:
    return LibraryEntry(degree, nodes, both, name, t_l, Fraction(t_b))


def test_entries_that_others_dominate_go() -> None:
    kept = pareto_entries(
        [
            entry(8, 3, 5, "long"),
            entry(8, 3, 5, "a"),
            entry(8, 3, 5, "b"),
            entry(8, 4, 5, "later"),
            entry(8, 4, 4, "better"),
            entry(8, 4, 4, "two", both=True),
            entry(8, 3, 5, "slower", both=True),
            entry(8, 5, 4, "y"),
            entry(8, 3, 5, "x", degree=3),
            entry(7, 9, 9, "z"),
        ]
    )
    assert [one.expression for one in kept] == ["z", "slower", "two", "x"]
    one_way = pareto_entries(
        [entry(8, 3, 5, "b"), entry(8, 3, 5, "a"), entry(8, 4, 4, "c", both=True), entry(8, 5, 3, "dd")]
    )
    assert [one.expression for one in one_way] == ["a", "c", "dd"]


def test_line_graphs_that_others_dominate_go() -> None:
    def line(nodes: int, t_l: int, gather: int, reduce: int, base: str, power: int = 1) -> LineGraphEntry:
        return LineGraphEntry(2, nodes, power, base, t_l, Fraction(gather), Fraction(reduce))

    kept = pareto_entries(
        [
            line(8, 4, 3, 3, "late"),
            line(8, 3, 4, 5, "b"),
            line(8, 3, 5, 4, "a"),
            line(8, 5, 3, 3, "c"),
            line(7, 9, 9, 9, "z"),
        ]
    )
    assert [one.base for one in kept] == ["z", "a", "late"]
    one = line(8, 3, 4, 5, "x()", 2)
    assert one.t_b == 5
    assert line(8, 3, 6, 5, "x()").t_b == 6
    assert one.expression == "line_graph(x(), 2)"
    assert line(8, 3, 6, 5, "x()").expression == "line_graph(x())"


def test_lines_of_neighbours() -> None:
    found = parsed_entry("4 2 9 5 10 27/2 f(1, 2)")
    assert (found.nodes, found.degree, found.bidirectional, found.steps) == (9, 4, True, 5)
    assert (found.gather, found.reduce, found.expression) == (Fraction(10, 9), Fraction(3, 2), "f(1, 2)")
    assert found.t_b_both == Fraction(10, 9) + Fraction(3, 2)
    assert not parsed_entry("1 1 1 1 1 1 x").bidirectional
    for line in (
        "4 3 9 5 1 1 x",
        "4 0 9 5 1 1 x",
        "0 1 9 5 1 1 x",
        "4 1 0 5 1 1 x",
        "4 1 9 0 1 1 x",
        "4 1 9 5 1 x",
    ):
        with pytest.raises(FormatError, match="line of neighbours: "):
            parsed_entry(line)
    table = NeighbourTable(
        "treadle neighbour table 1\n# run --nodes 5:9 --degree 3\n# run --nodes 20:21 --degree 2:4\n"
        "3 1 7 2 8 8 a\n3 1 7 3 7 7 b"
    )
    assert [one.expression for one in table.entries(7, 3)] == ["a", "b"]
    assert table.sizes == ((7, 3),)
    assert table.commands == ["run --nodes 5:9 --degree 3", "run --nodes 20:21 --degree 2:4"]
    covered = [(4, 3), (5, 3), (9, 3), (10, 3), (7, 2), (7, 4), (20, 1), (20, 2), (21, 4), (21, 5), (22, 3)]
    assert [table.covers(*size) for size in covered] == [
        *(False, True, True, False, False, False, False, True, True, False, False),
    ]
    with pytest.raises(
        FormatError, match="expected 'treadle neighbour table 1' in the first line, found 'x'"
    ):
        NeighbourTable("x\n")
    with pytest.raises(FormatError, match="line of neighbours: '3 1'"):
        NeighbourTable("treadle neighbour table 1\n3 1")


def test_a_set_of_an_abelian_group() -> None:
    """T_B is cost * d / (scale * N); the scale of degree 3 is lcm(1, 2, 3)."""
    one = AbelianSet((4, 2), (1, 2, 6), 3, 14)
    assert one.expression == 'abelian_cayley("4x2", 1, 2, 6)'
    assert one.is_bidirectional
    assert not AbelianSet((4, 2), (1, 2, 3), 3, 14).is_bidirectional
    assert one.entry == LibraryEntry(3, 8, True, one.expression, 3, Fraction(14 * 3, 6 * 8))


@pytest.mark.parametrize(
    ("search", "words", "message"),
    [
        (search_abelian, {"n": 1, "degree": 1, "work": 1}, "search_abelian: n must be at least 2, found 1"),
        (
            search_abelian,
            {"n": 4097, "degree": 1, "work": 1},
            "search_abelian: n must be at most 4096, found 4097",
        ),
        (
            search_abelian,
            {"n": 5, "degree": 9, "work": 1},
            "search_abelian: degree must be at most 8, found 9",
        ),
        (
            search_abelian,
            {"n": 5, "degree": 0, "work": 1},
            "search_abelian: degree must be at least 1, found 0",
        ),
        (
            search_abelian,
            {"n": 5, "degree": 2, "work": 0},
            "search_abelian: work must be at least 1, found 0",
        ),
        (search_cayley, {"n": 1, "degree": 1, "trials": 1}, "search_cayley: n must be at least 2, found 1"),
        (
            search_cayley,
            {"n": 4097, "degree": 1, "trials": 1},
            "search_cayley: n must be at most 4096, found 4097",
        ),
        (
            search_cayley,
            {"n": 5, "degree": 9, "trials": 1},
            "search_cayley: degree must be at most 8, found 9",
        ),
        (
            search_cayley,
            {"n": 5, "degree": 2, "trials": 0},
            "search_cayley: trials must be at least 1, found 0",
        ),
        (
            search_cayley,
            {"n": 5, "degree": 2, "trials": 10**9 + 1},
            "search_cayley: trials must be at most 1000000000, found 1000000001",
        ),
    ],
)
def test_searches_at_their_limits(search: Any, words: dict[str, int], message: str) -> None:
    n, degree = words.pop("n"), words.pop("degree")
    with pytest.raises(TopologyError) as refused:
        search(n, degree, **words)
    assert str(refused.value) == message


def test_small_searches_find_the_optima() -> None:
    """Of 8 nodes and degree 2 both bounds can be met: 3 steps and 7/8."""
    found = search_cayley(8, 2, trials=20_000, seed=1)
    assert [(one.t_l, one.t_b, one.bidirectional) for one in found.entries] == [
        (3, Fraction(7, 8), False),
        (4, Fraction(7, 8), True),  # the best of those whose links come in pairs
    ]
    assert found.tried % 1024 == 0  # whole blocks
    both = search_cayley(9, 4, trials=2000, seed=1, bidirectional=True)
    assert [(one.t_l, one.t_b, one.bidirectional) for one in both.entries] == [(2, Fraction(8, 9), True)]
    five = search_abelian(5, 2, work=10_000)
    assert [(one.steps, one.entry.t_b) for one in five.entries] == [(2, Fraction(4, 5))]
