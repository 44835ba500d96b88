"""The shipped table of abelian Cayley digraphs: valued anew in samples, and what it gives the finder."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from tools.finder.library_texts import abelian_text

from treadle.errors import FormatError
from treadle.finder.searches.abelian_search import AbelianSet, least_abelian_steps
from treadle.finder.searches.abelian_table import AbelianTable, shipped_abelian_table
from treadle.finder.searches.cayley_library import check_entry

TABLE = shipped_abelian_table()


def test_a_sample_is_what_the_graphs_are() -> None:
    cells = TABLE.cells
    for place in np.random.default_rng(7).choice(len(cells), 60, replace=False):
        n, degree, two_way = cells[place]
        sets = TABLE.sets(n, degree, two_way=two_way)
        for one in sets:
            check_entry(one.entry)
            assert one.is_bidirectional or not two_way
        assert [one.steps for one in sets] == sorted({one.steps for one in sets})
        assert all(a.cost > b.cost for a, b in pairwise(sets))


def test_every_size_has_its_sets() -> None:
    """Of each degree from 2 to 8; two-way ones where pairs, or an involution, make up the degree."""
    cells = set(TABLE.cells)
    for degree in range(2, 9):
        known = {n for n, d, _ in cells if d == degree}
        assert known >= set(range(degree + 2, 2001)), degree
    for n, degree, two_way in sorted(cells)[::300]:
        assert TABLE.sets(n, degree, two_way=two_way)[0].steps >= least_abelian_steps(
            n, degree, two_way=two_way
        )


@pytest.mark.parametrize(
    ("n", "degree", "two_way", "steps"),
    [
        *((97, 4, False, 6), (97, 8, False, 3), (97, 8, True, 3)),
        *((509, 8, False, 6), (751, 8, False, 6), (1021, 8, False, 7), (1499, 8, False, 7)),
        *((509, 4, False, 11), (1009, 4, False, 13), (1021, 4, False, 13), (1499, 4, False, 15)),
    ],
)
def test_optimal_bandwidth_takes_few_steps_at_prime_sizes(
    n: int, degree: int, two_way: bool, steps: int
) -> None:
    entries = [one for one in TABLE.entries(n, degree) if one.bidirectional or not two_way]
    best = min(entries, key=lambda one: (one.t_b, one.t_l))
    check_entry(best)
    assert best.t_b == Fraction(n - 1, n)
    assert best.t_l <= steps


def test_a_table_is_read_as_it_was_written() -> None:
    cells = {
        (16, 4, True): (
            AbelianSet((8, 2), (1, 2, 7 * 2, 8), 5, 47),
            AbelianSet((16,), (1, 4, 12, 15), 6, 45),
        ),
        (9, 2, False): (AbelianSet((9,), (1, 4), 4, 8),),
        (9, 3, False): (AbelianSet((3, 3), (1, 3, 3), 4, 17),),
    }
    text = abelian_text(cells, ["a command"])
    table = AbelianTable(text)
    assert table.commands == ["a command"]
    assert {cell: table.sets(cell[0], cell[1], two_way=cell[2]) for cell in table.cells} == cells | {
        (16, 4, True): tuple(
            AbelianSet(one.moduli, tuple(sorted(one.generators)), one.steps, one.cost)
            for one in cells[16, 4, True]
        )
    }


@pytest.mark.parametrize(
    "line", ["9 4  3x3 1", "9 4   1 2 3", "9 x   1 2", "9 4 5 2x2 1 2", "9"], ids=lambda text: text[:12]
)
def test_faults_of_a_line_are_told(line: str) -> None:
    with pytest.raises(FormatError, match="line of 9 nodes"):
        AbelianTable(f"treadle abelian table 1\n2 one-way\n{line}\n").sets(9, 2, two_way=False)


def test_another_file_is_refused() -> None:
    with pytest.raises(FormatError, match="first line"):
        AbelianTable("treadle abelian table 2\n")
