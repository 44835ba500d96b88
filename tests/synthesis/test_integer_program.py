"""Integer programs that grow: limits, sides of rows, prices, and numbers that are too large to tell apart."""

from __future__ import annotations

from math import inf

import pytest

from treadle.math.columns import IntegerProgram


def test_whole_solutions_and_prices_of_the_relaxation() -> None:
    """Most of 3 x + 2 y with 2 x + 3 y <= 7 and 4 x + y <= 9: in fractions 2 and 1, which are whole."""
    program = IntegerProgram()
    x, y = program.column(3), program.column(2)
    assert (x, y) == (0, 1)
    rows = program.add_row({x: 2, y: 3}, upper=7), program.add_row({x: 4, y: 1}, upper=9)
    assert rows == (0, 1)
    found = program.relaxed()
    assert found is not None
    # prices p, q of the rows: 2 p + 4 q = 3 and 3 p + q = 2
    assert found[0] == pytest.approx([2, 1])
    assert found[1] == pytest.approx([0.5, 0.5])
    assert program.integers() == [2, 1]


def test_fractions_are_told_solve_whole_numbers_in_turn() -> None:
    program = IntegerProgram()
    x, y = program.column(1), program.column(1)
    program.add_row({x: 2}, upper=5)
    row = program.add_row({y: 2}, upper=7)
    assert program.integers() == [2, 3]
    relaxed = program.relaxed()
    assert relaxed is not None
    assert relaxed[0] == pytest.approx([2.5, 3.5])
    assert program.integers() == [2, 3]
    program.solver.changeRowBounds(row, -inf, 10)
    assert program.integers() == [2, 5]
    program.solver.changeRowBounds(row, 0, 3)
    assert program.integers() == [2, 1]


def test_sides_and_limits() -> None:
    """Without a lower side rows may be negative; a limit of none is none."""
    program = IntegerProgram()
    x, y = program.column(1, upper=4), program.column(-2)
    row = program.add_row({x: 1, y: -1}, 3, lower=1)
    assert program.integers() == [3, 0]
    program.solver.changeRowBounds(row, -inf, -2)
    assert program.integers() == [0, 2]
    program.solver.changeColCost(x, 3)
    assert program.integers() == [4, 6]
    program.solver.changeColCost(x, 1)
    program.solver.changeRowBounds(row, 6, inf)  # x is 4 at most
    assert program.integers() is None
    assert program.relaxed() is None
    program.solver.changeColBounds(x, 0, 9)
    assert program.integers() == [9, 0]
    program.solver.changeColBounds(x, 0, inf)
    program.solver.changeRowBounds(row, 6, 11)
    assert program.integers() == [11, 0]


@pytest.mark.parametrize(("largest", "is_found"), [(2**31 - 1, True), (2**31, False)])
def test_values_that_are_too_large_are_no_solution(largest: int, is_found: bool) -> None:
    program = IntegerProgram()
    small, large = program.column(1, upper=3), program.column(1, upper=largest)
    assert (small, large) == (0, 1)
    assert program.integers() == ([3, largest] if is_found else None)
