"""Integer programs that grow by rows, solved by branch and bound."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from treadle.math.lp import OPTIMAL, Program

_MOST_NODES = 2000
"""Of the search tree; in numbers, so that results do not depend on the machine."""

_GAP = 0.01
"""A solution this close to the best is as good: callers need one, and a good one where that is cheap."""

_ITERATION_WORK, _WHOLE_WORK = 300, 2000
"""Nanoseconds of a simplex iteration for each row and column; of one in branch and bound, with the rest."""

_SAFE = 2**31
"""Values below this are told from their neighbours within the solver's tolerances."""


class IntegerProgram:
    """Maximise c.x over integers 0 <= x <= upper, subject to lower <= rows <= upper; all data integers.

    Floats do the work: what `solve` returns is whole, and the caller checks what matters exactly.
    """

    def __init__(self) -> None:
        self._lp = Program(maximise=True, mip_rel_gap=_GAP, mip_max_nodes=_MOST_NODES)
        self._work, self._is_integer = 0, False

    def add_column(self, cost: int, upper: int | None = None) -> int:
        """Append a variable; returns its number."""
        self._is_integer = False
        return self._lp.column(float(cost), upper=np.inf if upper is None else float(upper))

    def add_row(
        self, coefficients: Mapping[int, int], lower: int | None = None, upper: int | None = None
    ) -> int:
        """Append a row over columns; returns its number."""
        return self._lp.row(*_bounds(lower, upper), [*coefficients], [*coefficients.values()])

    def set_cost(self, column: int, cost: int) -> None:
        """Another cost for a variable."""
        self._lp.solver.changeColCost(column, float(cost))

    def set_row(self, row: int, lower: int | None, upper: int | None) -> None:
        """Other sides for a row."""
        self._lp.solver.changeRowBounds(row, *_bounds(lower, upper))

    def set_upper(self, column: int, upper: int | None) -> None:
        """Another limit for a variable."""
        self._lp.solver.changeColBounds(column, 0.0, np.inf if upper is None else float(upper))

    def relaxed(self) -> tuple[list[float], list[float]] | None:
        """Values and row duals of the linear relaxation; None without an optimum."""
        values = self._solved(integer=False)
        return None if values is None else (values, self._lp.solution()[1].tolist())

    def solve(self) -> list[int] | None:
        """An integer solution within 1% of the best; None if there is none, or none was found."""
        values = self._solved(integer=True)
        if values is None or max(values, default=0.0) >= _SAFE:
            return None
        return [round(value) for value in values]

    def take_work(self) -> int:
        """Work since the last call, in nanoseconds of the reference machine, counted and not timed."""
        work, self._work = self._work, 0
        return work

    def _solved(self, *, integer: bool) -> list[float] | None:
        if integer != self._is_integer:
            self._lp.make_integer(0, self._lp.n_columns, is_integer=integer)
            self._is_integer = integer
        status = self._lp.run()
        each = (self._lp.n_rows + self._lp.n_columns) * (_WHOLE_WORK if integer else _ITERATION_WORK)
        self._work += (1 + self._lp.iterations) * each
        if status != OPTIMAL and not (integer and self._lp.is_feasible):
            return None
        values: list[float] = self._lp.solution()[0].tolist()
        return values


def _bounds(lower: int | None, upper: int | None) -> tuple[float, float]:
    return (
        -np.inf if lower is None else float(lower),
        np.inf if upper is None else float(upper),
    )
