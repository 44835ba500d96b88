"""Rationals of a solver's basis, against elimination in fractions."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from treadle.math.exact import solve_exactly
from treadle.math.lp import Program
from treadle.synthesis.trees.groups.exact_basis import BasisSystem, simplest


def solved(matrix: list[dict[int, int]], rhs: list[int]) -> Program:
    """A program whose optimal basis is all of its columns: free ones, and rows that are equations."""
    lp = Program()
    for column in range(len(matrix)):
        lp.column(float(column + 1))
        lp.solver.changeColBounds(column, -np.inf, np.inf)
    for row, value in zip(matrix, rhs, strict=True):
        lp.row(value, value, [*row], [*row.values()])
    lp.solve()
    return lp


@pytest.mark.parametrize("seed", range(6))
def test_both_sides_agree_with_elimination(seed: int) -> None:
    random = Random(seed)
    n = 12
    matrix = [{j: random.randint(1, 9) for j in random.sample(range(n), 4)} | {i: 37} for i in range(n)]
    rhs = [random.randint(0, 10**12) for _ in range(n)]
    columns = [{i: row[j] for i, row in enumerate(matrix) if j in row} for j in range(n)]
    system = BasisSystem(solved(matrix, rhs))
    for digits, exact in (
        (system.primal(np.array(rhs, dtype=object)), solve_exactly(matrix, rhs)),
        (system.dual(np.arange(1, n + 1).astype(object)), solve_exactly(columns, list(range(1, n + 1)))),
    ):
        tries = [simplest(one, n) for one in digits]
        assert exact in tries
        # denominators of some 60 bits are not told from the first digits
        assert tries[0] != exact
        assert max(value.denominator for value in exact or ()) > 2**30
