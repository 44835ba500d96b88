"""What searches share, by hand: pools, costs, groups, sizes, links that exchange heads, libraries."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from treadle.errors import FormatError
from treadle.finder.searches.abelian_search import search_abelian
from treadle.finder.searches.candidates import (
    GeneratorSet,
)
from treadle.finder.searches.cayley_search import _CayleySearch, search_cayley
from treadle.finder.searches.link_swaps import opposites
from treadle.finder.searches.neighbour_search import neighbour_trials
from treadle.finder.searches.neighbour_table import NeighbourTable, parsed_entry


def test_sets_change_in_a_generator_or_two_and_never_hold_the_identity() -> None:
    search = _CayleySearch(5, 3, 1, bidirectional=False)
    sets = search._changed_sets(GeneratorSet(0, 0, (1, 2, 3), 2))
    assert sets.shape == (search.block, 3)
    changed = (sets != [1, 2, 3]).sum(axis=1)
    assert set(changed.tolist()) == {0, 1, 2}
    for column in sets.T:
        assert set(column.tolist()) == {1, 2, 3, 4}


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
