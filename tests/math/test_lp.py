"""Programs in the solver: grown and loaded, from a basis, in integers, within a time."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.errors import InfeasibleError
from treadle.math.lp import Program


def knapsack() -> Program:
    """Maximise 3 x + 2 y with 2 x + y <= 7 and x + y <= 5, by columns."""
    lp = Program("knapsack", maximise=True)
    lp.empty_rows(np.full(2, -np.inf), np.array([7.0, 5.0]))
    assert lp.column(3.0, [0, 1], [2, 1]) == 0
    lp.columns(np.array([0]), np.array([0]), np.array([1]), np.array([1.0]))
    lp.solver.changeColCost(1, 2.0)
    return lp


def test_what_has_no_optimum() -> None:
    lp = knapsack()
    lp.row(6.0, np.inf, [0, 1], [1, 1])
    assert lp.optimum() is None
    with pytest.raises(InfeasibleError, match="knapsack: solver ended with kInfeasible"):
        lp.solve()
