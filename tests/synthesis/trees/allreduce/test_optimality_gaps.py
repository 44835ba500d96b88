"""How far vertices are from an optimum, and bases found on a closer look."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from treadle.math.exact import (
    LinearProgram,
    Vertex,
    optimality_gap,
    refined_basis,
    refinement_scale,
)

F = Fraction
PROGRAM = LinearProgram(
    rows=[{0: 2, 1: 1}, {1: 3, 2: -1}, {0: 1, 2: 1}],
    rhs=[10, 6, 7],
    equality=[False, True, False],
    costs=[3, 5, 2],
)
"""3 x + 5 y + 2 z, where 2 x + y <= 10, 3 y - z = 6 and x + z <= 7."""


def test_slacks_and_reduced_costs() -> None:
    found = optimality_gap(PROGRAM, Vertex((F(1, 2), F(5, 3), F(3, 4)), (F(1, 3), F(0), F(7, 2))))
    assert found.slacks == [F(22, 3), F(7, 4), F(23, 4)]
    assert found.reduced == [F(-7, 6), F(14, 3), F(-3, 2)]
    found = optimality_gap(PROGRAM, Vertex((F(0),) * 3, (F(1), F(-1, 2), F(2))))
    assert found.slacks == PROGRAM.rhs
    assert found.reduced == [F(-1), F(11, 2), F(-1, 2)]


@pytest.mark.parametrize(
    ("primal", "dual", "gaps"),
    [
        ((F(0), F(2), F(0)), (F(0), F(5, 3), F(0)), (0, F(11, 3))),
        ((F(-1), F(2), F(0)), (F(0), F(5, 3), F(4)), (1, 0)),
        ((F(5), F(0), F(0)), (F(0), F(5, 3), F(4)), (6, 0)),  # the equation lacks six
        ((F(0), F(3), F(0)), (F(0), F(5, 3), F(4)), (3, 0)),  # or has three too much
        ((F(0), F(5), F(9)), (F(0), F(5, 3), F(4)), (2, 0)),
        ((F(0), F(13, 3), F(7)), (F(-1, 7), F(2), F(4)), (0, F(1, 7))),
    ],
)
def test_gaps(
    primal: tuple[Fraction, ...], dual: tuple[Fraction, ...], gaps: tuple[Fraction, Fraction]
) -> None:
    """The worst of rows and signs; prices of equations may have any."""
    found = optimality_gap(PROGRAM, Vertex(primal, dual))
    assert [found.primal, found.dual] == list(gaps)
    assert not found.is_none


def test_an_optimum_has_no_gap() -> None:
    """x = 0: z = 7, y = 13/3; worth 65/3 + 14. Prices 5/3 of the equation and 11/3 of the last row."""
    found = optimality_gap(PROGRAM, Vertex((F(0), F(13, 3), F(7)), (F(0), F(5, 3), F(11, 3))))
    assert found.is_none
    assert found.primal == found.dual == 0
    assert found.reduced == [F(-2, 3), 0, 0]
    assert found.slacks == [F(17, 3), 0, 0]


@pytest.mark.parametrize(
    ("worst", "before", "bits"),
    [
        (F(0), -7, -7),
        (F(1, 1024), 0, 10),
        (F(3, 1024), 0, 9),
        (F(1, 1024), 12, 12),
        (F(5), -9, -2),
        (F(1, 3), 0, 1),
    ],
)
def test_powers_of_two_that_blow_up(worst: Fraction, before: int, bits: int) -> None:
    """To about 1, and never less than before."""
    assert refinement_scale(worst, before) == bits
    assert [refinement_scale(F(1, 2**bits), 0) for bits in (999, 1000, 5000)] == [999, 1000, 1000]


def solve(rows: list[list[int]], rhs: list[int]) -> tuple[Fraction, Fraction]:
    (a, b), (c, d) = rows
    det = a * d - b * c
    return F(rhs[0] * d - b * rhs[1], det), F(a * rhs[1] - c * rhs[0], det)


@pytest.mark.parametrize("seed", range(1, 7))
def test_bases_that_are_refined(seed: int) -> None:
    """From the basis of all slacks to that of the best corner, at any zoom; of two columns and three rows."""
    chance = np.random.default_rng(seed)
    table = chance.integers(1, 9, (3, 2)).tolist()
    rhs = chance.integers(20, 60, 3).tolist()
    costs = chance.integers(1, 9, 2).tolist()
    program = LinearProgram([dict(enumerate(row)) for row in table], rhs, [False] * 3, costs)
    corners = [(F(0), F(0))]
    corners += [(F(rhs[i], table[i][0]), F(0)) for i in range(3)] + [
        (F(0), F(rhs[i], table[i][1])) for i in range(3)
    ]
    for i, j in combinations(range(3), 2):
        if table[i][0] * table[j][1] != table[i][1] * table[j][0]:
            corners.append(solve([table[i], table[j]], [rhs[i], rhs[j]]))
    slacks_of = {c: optimality_gap(program, Vertex(c, (F(0),) * 3)).slacks for c in corners}
    allowed = [c for c in corners if min(c) >= 0 and min(slacks_of[c]) >= 0]
    best = max(allowed, key=lambda c: costs[0] * c[0] + costs[1] * c[1])
    start = Vertex((F(0), F(0)), (F(0),) * 3)
    idle = np.array([False] * 2), np.array([True] * 3)
    for zoom in ((0, 0), (-5, 3)):
        found = refined_basis(program, start, idle, optimality_gap(program, start), zoom)
        assert found is not None
        columns, rows = found
        assert columns.sum() + rows.sum() == 3
        assert columns.tolist() == [value > 0 for value in best]
        assert rows.tolist() == [slack > 0 for slack in slacks_of[best]]


def test_a_program_without_bounds_has_no_basis() -> None:
    program = LinearProgram([{0: 1, 1: -1}], [3], [False], [1, 1])
    start = Vertex((F(0), F(0)), (F(0),))
    gap = optimality_gap(program, start)
    assert [gap.primal, gap.dual] == [0, 1]
    assert refined_basis(program, start, (np.array([False] * 2), np.array([True])), gap, (0, 0)) is None
