"""Programs in the solver: grown and loaded, from a basis, in integers, within a time."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.context import Context, TimeLimitError, under
from treadle.errors import InfeasibleError
from treadle.math.lp import OPTIMAL, Program


def knapsack() -> Program:
    """Maximise 3 x + 2 y with 2 x + y <= 7 and x + y <= 5, by columns."""
    lp = Program("knapsack", maximise=True)
    lp.empty_rows(np.full(2, -np.inf), np.array([7.0, 5.0]))
    assert lp.column(3.0, [0, 1], [2, 1]) == 0
    lp.columns(np.array([0]), np.array([0]), np.array([1]), np.array([1.0]))
    lp.solver.changeColCost(1, 2.0)
    return lp


def test_a_program_grown_by_columns_is_the_one_that_is_loaded() -> None:
    grown, loaded = knapsack(), Program("knapsack", maximise=True)
    rows, columns = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    sides = np.full(2, -np.inf), np.array([7.0, 5.0])
    loaded.load(np.array([3.0, 2.0]), *sides, [(rows, columns, np.array([2.0, 1.0, 1.0, 1.0]))])
    for lp in (grown, loaded):
        values, duals = lp.solve()
        assert values.tolist() == [2.0, 3.0]
        assert duals.tolist() == [1.0, 1.0]
        assert sorted(zip(*(part.tolist() for part in lp.entries()), strict=True)) == [
            (0, 0, 2.0),
            (0, 1, 1.0),
            (1, 0, 1.0),
            (1, 1, 1.0),
        ]


def test_a_basis_is_gone_on_from() -> None:
    lp = knapsack()
    lp.solve()
    columns, rows = lp.basis()
    other = knapsack()
    other.set_options(presolve="off")
    other.start_from(columns, rows, upper_from=0)
    assert other.run() == OPTIMAL
    assert other.iterations == 0


def test_integers_and_rows() -> None:
    lp = knapsack()
    lp.row(-np.inf, 3.5, [0, 1], [1, 1])
    assert lp.solve()[0].sum() == pytest.approx(3.5)
    lp.make_integer(0, 2)
    assert lp.solve()[0].tolist() == [3.0, 0.0]
    assert lp.integer_bound == pytest.approx(9)
    lp.make_integer(0, 2, is_integer=False)
    assert lp.solve()[0].sum() == pytest.approx(3.5)


def test_each_key_is_new_once() -> None:
    lp = Program()
    assert [lp.is_new(key) for key in ("a", ("b", 1), "a")] == [True, True, False]


def test_what_has_no_optimum() -> None:
    lp = knapsack()
    lp.row(6.0, np.inf, [0, 1], [1, 1])
    assert lp.optimum() is None
    with pytest.raises(InfeasibleError, match="knapsack: solver ended with kInfeasible"):
        lp.solve()


def test_time_counts_where_it_is_asked_for() -> None:
    with under(Context(deadline=0.0)):
        assert knapsack().run() == OPTIMAL
        assert knapsack().run(least_s=10.0) == OPTIMAL
        with pytest.raises(TimeLimitError, match="knapsack"):
            knapsack().run(least_s=0.0)


def test_rows_of_the_widest_links_are_not_left_out() -> None:
    lp = Program("wide", maximise=True)
    lp.column(1.0)
    lp.row(-np.inf, 2.0**50, [0], [2.0**50])
    values, _ = lp.solve()
    assert values.tolist() == [1.0]
