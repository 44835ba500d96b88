"""Integer programs that grow: limits, sides of rows, prices, and numbers that are too large to tell apart."""

from __future__ import annotations

import pytest

from treadle.synthesis.integer_program import IntegerProgram


def test_whole_solutions_and_prices_of_the_relaxation() -> None:
    """Most of 3 x + 2 y with 2 x + 3 y <= 7 and 4 x + y <= 9: in fractions 2 and 1, which are whole."""
    program = IntegerProgram()
    x, y = program.add_column(3), program.add_column(2)
    assert (x, y) == (0, 1)
    rows = program.add_row({x: 2, y: 3}, upper=7), program.add_row({x: 4, y: 1}, upper=9)
    assert rows == (0, 1)
    found = program.relaxed()
    assert found is not None
    # prices p, q of the rows: 2 p + 4 q = 3 and 3 p + q = 2
    assert found[0] == pytest.approx([2, 1])
    assert found[1] == pytest.approx([0.5, 0.5])
    assert program.solve() == [2, 1]


def test_fractions_are_told_from_whole_numbers_in_turn() -> None:
    """Columns that come after a whole solution are whole in the next, and free in the relaxation."""
    program = IntegerProgram()
    x = program.add_column(1)
    program.add_row({x: 2}, upper=5)
    assert program.solve() == [2]
    relaxed = program.relaxed()
    assert relaxed is not None
    assert relaxed[0] == pytest.approx([2.5])
    assert program.solve() == [2]
    y = program.add_column(1)
    row = program.add_row({y: 2}, upper=7)
    assert program.solve() == [2, 3]
    program.set_row(row, None, 10)
    assert program.solve() == [2, 5]
    program.set_row(row, 0, 3)
    assert program.solve() == [2, 1]


def test_sides_and_limits() -> None:
    """Without a lower side rows may be negative; a limit of none is none."""
    program = IntegerProgram()
    x, y = program.add_column(1, 4), program.add_column(-2)
    row = program.add_row({x: 1, y: -1}, 1, 3)
    assert program.solve() == [3, 0]
    program.set_row(row, None, -2)
    assert program.solve() == [0, 2]
    program.set_cost(x, 3)
    assert program.solve() == [4, 6]
    program.set_cost(x, 1)
    program.set_row(row, 6, None)  # x is 4 at most
    assert program.solve() is None
    assert program.relaxed() is None
    program.set_upper(x, 9)
    assert program.solve() == [9, 0]
    program.set_upper(x, None)
    program.set_row(row, 6, 11)
    assert program.solve() == [11, 0]


@pytest.mark.parametrize(("largest", "is_found"), [(2**31 - 1, True), (2**31, False)])
def test_values_that_are_too_large_are_no_solution(largest: int, is_found: bool) -> None:
    program = IntegerProgram()
    small, large = program.add_column(1, 3), program.add_column(1, largest)
    assert (small, large) == (0, 1)
    assert program.solve() == ([3, largest] if is_found else None)
