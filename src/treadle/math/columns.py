"""Column generation and cutting planes: programs over integers that grow by columns and rows.

A restricted master is solved in floats and then exactly on the final basis: only a basis that passes the
check in rationals is an optimum, so that no tolerance enters the result. Callers price columns and separate
cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from treadle.context import UNLIMITED, context, under
from treadle.errors import InfeasibleError
from treadle.math.exact import (
    Basis,
    LinearProgram,
    Vertex,
    optimality_gap,
    refined_basis,
    refinement_scale,
    vertex_of,
)
from treadle.math.lp import OPTIMAL, Program

_REFINEMENTS = 24

_ITERATION_WORK, _ENTRY_WORK, _INTEGER_WORK = 300, 2000, 2000
"""Nanoseconds of a simplex iteration for each row and column, of an entry in exact elimination, and of an
iteration in branch and bound, with the rest."""

_MOST_NODES = 2000
"""Of the search tree; in numbers, so that results do not depend on the machine."""

_GAP = 0.01
"""An integer solution this close to the best is as good: callers need one, a good one where that is cheap."""

_SAFE = 2**31
"""Values below this are told from their neighbours within the solver's tolerances."""


class RestrictedMaster(Program):
    """Maximise c.x subject to rows <= right-hand sides (or =) and x >= 0, all data integers.

    Parameters
    ----------
    scale : int
        Unit of the right-hand sides that the solver is given.
    """

    def __init__(self, scale: int = 1) -> None:
        super().__init__(maximise=True, tolerance=1e-10)
        self.scale, self._program = scale, LinearProgram([], [], [], [])

    def add_column(self, cost: int, coefficients: Mapping[int, int] | None = None) -> int:
        """Append a variable x >= 0 with its coefficients in existing rows; returns its number."""
        number, entries = len(self._program.costs), coefficients or {}
        for row, value in entries.items():
            self._program.rows[row][number] = value
        self._program.costs.append(cost)
        return self.column(float(cost), [*entries], [*entries.values()])

    def add_row(self, coefficients: Mapping[int, int], upper: int = 0, *, equality: bool = False) -> int:
        """Append ``coefficients . x <= upper`` (or =); returns its number."""
        self._program.rows.append(dict(coefficients))
        self._program.rhs.append(upper)
        self._program.equality.append(equality)
        scaled = upper / self.scale
        lower = scaled if equality else -np.inf
        return self.row(lower, scaled, [*coefficients], [*coefficients.values()])

    def near_optimum(self) -> tuple[list[float], list[float]]:
        """Columns' values in units of `scale`, and rows' duals, as floats."""
        status = self.run()
        context().spend((1 + self.iterations) * (self.n_rows + self.n_columns) * _ITERATION_WORK)
        if status == OPTIMAL:
            values, duals = self.solution()
            return values.tolist(), duals.tolist()
        # it may be the numbers: what is tiny beside others counts as 0
        with under(UNLIMITED):
            vertex = self._refined(self._idle_basis())
        if vertex is None:
            raise InfeasibleError(f"linear program: solver ended with {status}, expected an optimum")
        return [float(value / self.scale) for value in vertex.primal], [float(v) for v in vertex.dual]

    def exact_optimum(self) -> Vertex | None:
        """An optimal vertex of the program so far, unscaled, that exact arithmetic confirms.

        The last solve's, mostly; where floats do not tell the program's numbers apart, of a basis found on a
        closer look (`math.exact`). None if that fails.

        Raises
        ------
        TimeLimitError
            If the deadline passed.
        """
        basis = self.basis()
        if tuple(map(len, basis)) != self._shape:  # the solver failed
            basis = self._idle_basis()
        return self._refined(basis)

    def generate(
        self, improve: Callable[[list[float], list[float]], int], improve_exactly: Callable[[Vertex], int]
    ) -> Vertex | None:
        """Return the exact optimum of the program with all that these add to it; None if none is found.

        Each gets a solution of the program so far, and says how many columns or rows it added.
        """
        while True:
            # for floats first: exact solutions of a program that still grows would be thrown away
            if not improve(*self.near_optimum()):
                vertex = self.exact_optimum()
                if vertex is None or not improve_exactly(vertex):
                    return vertex

    def _refined(self, basis: Basis) -> Vertex | None:
        """The optimum found from a basis, which the solver then goes on from."""
        zoom = -self.scale.bit_length(), 0
        for done in range(_REFINEMENTS):
            near, prices = self.solution()
            if (len(near), len(prices)) != self._shape:  # the solver failed
                near, prices = map(np.zeros, self._shape)
            floats = (near * float(self.scale)).tolist(), prices.tolist()
            vertex = vertex_of(self._program, basis, floats)
            context().spend(int(basis[0].sum()) * sum(map(len, self._program.rows)) * _ENTRY_WORK)
            if vertex is None:
                return None
            found = optimality_gap(self._program, vertex)
            if found.is_none:
                if done:
                    self.start_from(*basis, upper_from=0)
                return vertex
            context().report("refinement", done, _REFINEMENTS)
            zoom = refinement_scale(found.primal, zoom[0]), refinement_scale(found.dual, zoom[1])
            finer = refined_basis(self._program, vertex, basis, found, zoom)
            if finer is None:
                return None
            basis = finer
        return None

    @property
    def _shape(self) -> tuple[int, int]:
        """Columns and rows of the program; the solver has fewer where it refuses numbers as too large."""
        return len(self._program.costs), len(self._program.rows)

    def _idle_basis(self) -> Basis:
        return np.zeros(self._shape[0], dtype=np.bool_), np.ones(self._shape[1], dtype=np.bool_)


class IntegerProgram(Program):
    """Maximise c.x over integers 0 <= x <= upper, subject to lower <= rows <= upper; all data integers.

    Floats do the work: `integers` are whole, and the caller checks what matters exactly. Columns come before
    the first solve, rows at any time.
    """

    def __init__(self) -> None:
        super().__init__(maximise=True, mip_rel_gap=_GAP, mip_max_nodes=_MOST_NODES)
        self._is_integer = False

    def add_row(
        self, coefficients: Mapping[int, int], upper: float = np.inf, *, lower: float = -np.inf
    ) -> int:
        """Append a row over columns; returns its number."""
        return self.row(lower, upper, [*coefficients], [*coefficients.values()])

    def relaxed(self) -> tuple[list[float], list[float]] | None:
        """Values and row duals of the linear relaxation; None without an optimum."""
        if not self._solved(integer=False):
            return None
        values, duals = self.solution()
        return values.tolist(), duals.tolist()

    def integers(self) -> list[int] | None:
        """An integer solution within 1% of the best; None if there is none, or none was found."""
        if not self._solved(integer=True):
            return None
        values = self.solution()[0].tolist()
        return None if max(values, default=0.0) >= _SAFE else [round(value) for value in values]

    def _solved(self, *, integer: bool) -> bool:
        if integer != self._is_integer:
            self.make_integer(0, self.n_columns, is_integer=integer)
            self._is_integer = integer
        status = self.run()
        each = (self.n_rows + self.n_columns) * (_INTEGER_WORK if integer else _ITERATION_WORK)
        context().spend((1 + self.iterations) * each)
        return status == OPTIMAL or (integer and self.is_feasible)
