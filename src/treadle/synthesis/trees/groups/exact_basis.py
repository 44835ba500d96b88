"""The rational solution that a basis stands for, by the solver's own factors and exact residuals.

The solver's factors solve a basis to some ten digits; the residual is taken in integers and solved again,
which adds as many digits each time (iterative refinement). From enough digits the simplest rationals are read
off. They are guesses until the caller has checked them against the program's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.math.lp import Program
from treadle.synthesis.trees.groups.cheapest_trees import Floats

Integers = NDArray[Any]
"""Python integers of any size."""

_FIRST_BITS = 44
"""Number of digits from which simple rationals are recognised."""

_MOST_BITS = 4096

_STEP = 40
"""Digits behind the point that one step in floats gives."""


@dataclass(frozen=True, eq=False)
class Digits:
    """Values near the solution of a system.

    Parameters
    ----------
    values : array of int objects
        In units of 2**-bits.
    bits : int
    accuracy : int
        The residual is less than 2**-accuracy.
    """

    values: Integers
    bits: int
    accuracy: int


class BasisSystem:
    """The square system of a solver's last basis, for its primal or dual side.

    Parameters
    ----------
    lp : Program
        Solved; with a basis.
    """

    def __init__(self, lp: Program) -> None:
        self._solver = lp.solver
        basic, is_basic = lp.basis()
        self.columns, self.tight = np.flatnonzero(basic), np.flatnonzero(~is_basic)
        self.n_rows, self.n_columns = lp.n_rows, lp.n_columns
        rows, columns, values = lp.entries()
        self._entries = rows, columns, values.astype(np.int64)
        self.order = np.array(lp.solver.getBasicVariables()[1], dtype=np.int64)
        self._is_column = self.order >= 0
        self._loose = is_basic

    def _side(self, *, by_row: bool) -> tuple[Int64Array, Int64Array, Integers]:
        """Equations, unknowns and coefficients of the basis, sorted by equation."""
        rows, columns, values = self._entries
        kept = np.isin(rows, self.tight) & np.isin(columns, self.columns)
        rows, columns, values = rows[kept], columns[kept], values[kept]
        equation, unknown = (rows, columns) if by_row else (columns, rows)
        order = np.argsort(equation, kind="stable")
        return equation[order], unknown[order], values[order].astype(object)

    def column(self, number: int) -> Integers:
        """A column of the program, shape (n_rows,)."""
        rows, columns, values = self._entries
        found: Integers = np.zeros(self.n_rows, dtype=object)
        mine = columns == number
        found[rows[mine]] = values[mine].astype(object)
        return found

    def primal(self, rhs: Integers) -> Iterator[Digits]:
        """Yield ever finer values of all columns, for the right-hand sides of tight rows, shape (n_rows,)."""

        def solve(residual: Floats) -> Floats:
            found = np.zeros(self.n_columns)
            answer = np.array(self._solver.getBasisSolve(residual)[1])
            found[self.order[self._is_column]] = answer[self._is_column]
            return found

        needed: Integers = np.zeros(self.n_rows, dtype=object)
        needed[self.tight] = rhs[self.tight]
        return _digits(self._side(by_row=True), needed, self.n_columns, solve)

    def dual(self, costs: Integers) -> Iterator[Digits]:
        """Yield ever finer prices of all rows, for the costs of basic columns, shape (n_columns,)."""

        def solve(residual: Floats) -> Floats:
            given = np.zeros(self.n_rows)
            given[self._is_column] = residual[self.order[self._is_column]]
            found = np.array(self._solver.getBasisTransposeSolve(given)[1])
            found[self._loose] = 0.0
            return found

        needed: Integers = np.zeros(self.n_columns, dtype=object)
        needed[self.columns] = costs[self.columns]
        return _digits(self._side(by_row=False), needed, self.n_rows, solve)


def _digits(
    side: tuple[Int64Array, Int64Array, Integers],
    needed: Integers,
    size: int,
    solve: Callable[[Floats], Floats],
) -> Iterator[Digits]:
    """Yield digits of the unknowns of a system with float solver `solve`, each time about twice as many."""
    equation, unknown, factors = side
    starts = np.flatnonzero(np.diff(equation, prepend=-1))
    values: Integers = np.zeros(size, dtype=object)
    bits, wanted, residual, stuck = 0, _FIRST_BITS, needed, 0
    while wanted <= _MOST_BITS:
        worst = max((abs(v) for v in residual), default=0)
        if not worst:
            yield Digits(values, bits, _MOST_BITS)
            return
        # the residual is about 2**length in units of 2**-bits; a step has `_STEP` digits behind its point
        length = worst.bit_length()
        down = max(length - 1000, 0)
        near = np.array([float(v >> down) for v in residual]) / 2.0 ** (length - down)
        step = np.rint(solve(near) * 2.0**_STEP)
        if not np.isfinite(step).all():
            return
        more = max(0, _STEP - length)
        shift = length - _STEP + more
        values = np.array(
            [(v << more) + (int(s) << shift) for v, s in zip(values, step, strict=True)], dtype=object
        )
        bits += more
        total: Integers = np.zeros(len(needed), dtype=object)
        if len(starts):
            total[equation[starts]] = np.add.reduceat(factors * values[unknown], starts)
        residual = np.array([v << bits for v in needed], dtype=object) - total
        left = max((abs(v) for v in residual), default=0)
        stuck = stuck + 1 if left.bit_length() - more >= length - 8 else 0
        if stuck > 3:
            return
        accuracy = bits - left.bit_length()
        if accuracy >= wanted:
            yield Digits(values, bits, accuracy)
            wanted = 2 * accuracy


def simplest(digits: Digits, count: int) -> list[Fraction] | None:
    """Return rationals of small denominators that the first values agree with, None if one has none.

    A common denominator is gathered on the way: most values are multiples of what is known already.
    """
    bits, accuracy = digits.bits, digits.accuracy
    limit = 1 << max(min(accuracy, bits + _FIRST_BITS) // 2 - 3, 1)
    tolerance = 1 << max(bits - accuracy + 4, 0)
    found, common, half = [], 1, 1 << bits >> 1
    for value in digits.values[:count]:
        scaled = value * common
        nearest = (scaled + half) >> bits
        if abs(scaled - (nearest << bits)) <= tolerance * common:
            found.append(Fraction(nearest, common))
            continue
        fraction = Fraction(value, 1 << bits).limit_denominator(limit)
        if abs(fraction - Fraction(value, 1 << bits)) > Fraction(tolerance, 1 << bits):
            return None
        found.append(fraction)
        common = lcm(common, fraction.denominator)
        if common > limit:
            common = 1
    return found
