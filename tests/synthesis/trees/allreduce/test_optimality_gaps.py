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
)

F = Fraction


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
