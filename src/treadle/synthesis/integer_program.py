"""Integer programs that grow by rows, solved by branch and bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import highspy
import numpy as np

_MOST_NODES = 2000
"""Of the search tree; in numbers, so that results do not depend on the machine."""

_GAP = 0.01
"""A solution this close to the best is as good: callers need one, and a good one where that is cheap."""

_FEASIBLE = int(highspy.SolutionStatus.kSolutionStatusFeasible)

_ITERATION_WORK, _WHOLE_WORK = 300, 2000
"""Nanoseconds of a simplex iteration for each row and column; of one in branch and bound, with the rest."""

_SAFE = 2**31
"""Values below this are told from their neighbours within the solver's tolerances."""


class IntegerProgram:
    """Maximise c.x over integers 0 <= x <= upper, subject to lower <= rows <= upper; all data integers.

    Floats do the work: what `solve` returns is whole, and the caller checks what matters exactly.
    """

    def __init__(self) -> None:
        make_solver: Any = highspy.Highs  # its constructor has no type annotations
        self._solver = make_solver()
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("mip_rel_gap", _GAP),
            ("mip_max_nodes", _MOST_NODES),
        ):
            self._solver.setOptionValue(option, value)
        self._solver.changeObjectiveSense(highspy.ObjSense.kMaximize)
        self._n_columns = self._n_rows = self._work = 0
        self._is_integer = False

    def add_column(self, cost: int, upper: int | None = None) -> int:
        """Append a variable; returns its number."""
        limit = highspy.kHighsInf if upper is None else float(upper)
        none = np.zeros(0)
        self._solver.addCol(float(cost), 0.0, limit, 0, none.astype(np.int32), none)
        self._n_columns += 1
        self._is_integer = False
        return self._n_columns - 1

    def add_row(
        self, coefficients: Mapping[int, int], lower: int | None = None, upper: int | None = None
    ) -> int:
        """Append a row over columns; returns its number."""
        columns = np.array(list(coefficients), dtype=np.int32)
        values = np.array(list(coefficients.values()), dtype=float)
        self._solver.addRow(*_bounds(lower, upper), len(columns), columns, values)
        self._n_rows += 1
        return self._n_rows - 1

    def set_cost(self, column: int, cost: int) -> None:
        """Another cost for a variable."""
        self._solver.changeColCost(column, float(cost))

    def set_row(self, row: int, lower: int | None, upper: int | None) -> None:
        """Other sides for a row."""
        self._solver.changeRowBounds(row, *_bounds(lower, upper))

    def set_upper(self, column: int, upper: int | None) -> None:
        """Another limit for a variable."""
        self._solver.changeColBounds(column, 0.0, highspy.kHighsInf if upper is None else float(upper))

    def relaxed(self) -> tuple[list[float], list[float]] | None:
        """Values and row duals of the linear relaxation; None without an optimum."""
        values = self._solved(integer=False)
        return None if values is None else (values, list(self._solver.getSolution().row_dual))

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
            kind = highspy.HighsVarType.kInteger if integer else highspy.HighsVarType.kContinuous
            for column in range(self._n_columns):
                self._solver.changeColIntegrality(column, kind)
            self._is_integer = integer
        self._solver.run()
        iterations = 1 + int(self._solver.getInfo().simplex_iteration_count)
        each = (self._n_rows + self._n_columns) * (_WHOLE_WORK if integer else _ITERATION_WORK)
        self._work += iterations * each
        is_optimal = self._solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        if not is_optimal and not (integer and self._solver.getInfo().primal_solution_status == _FEASIBLE):
            return None
        return list(self._solver.getSolution().col_value)


def _bounds(lower: int | None, upper: int | None) -> tuple[float, float]:
    return (
        -highspy.kHighsInf if lower is None else float(lower),
        highspy.kHighsInf if upper is None else float(upper),
    )
