"""Linear programs of flows over links, put together from arrays and solved by HiGHS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from treadle.arrays import Int64Array, offsets_of
from treadle.context import TimeLimitError
from treadle.errors import InfeasibleError, ScheduleError
from treadle.synthesis.alltoall.rate.flow_instance import FloatArray

TOLERANCE = 1e-9
"""Of feasibility and optimality."""

_SIMPLEX_VARIABLES = 8_000
"""Beyond this an interior point with crossover is quicker; both end in a basic solution."""


@dataclass(frozen=True, eq=False)
class Entries:
    """Part of a sparse matrix: parallel arrays of rows, columns and values."""

    rows: Int64Array
    columns: Int64Array
    values: FloatArray


@dataclass(frozen=True, eq=False)
class FlowProgram:
    """Minimise or maximise costs . x subject to rows of at most or at least something, x >= 0.

    Parameters
    ----------
    costs : array of float64, shape (columns,)
    lower, upper : arrays of float64, shape (rows,)
        Infinite where a row has no such side.
    entries : tuple of Entries
    maximise : bool
    """

    costs: FloatArray
    lower: FloatArray
    upper: FloatArray
    entries: tuple[Entries, ...]
    maximise: bool


@dataclass(frozen=True, eq=False)
class FlowSolution:
    """An optimal basic solution.

    Parameters
    ----------
    values : array of float64, shape (columns,)
    prices : array of float64, shape (rows,)
        What one more unit of a row's limit is worth, without its sign.
    """

    values: FloatArray
    prices: FloatArray


def check_variables(what: str, variables: int, limit: int, remedy: str) -> None:
    """Refuse a program of too many variables in one line."""
    if variables > limit:
        raise ScheduleError(f"{what}: {variables} flow variables, expected at most {limit}; {remedy}")


def solve_flow_program(what: str, program: FlowProgram, *, time_limit_s: float | None = None) -> FlowSolution:
    """An optimal solution and its prices.

    Parameters
    ----------
    what : str
        Names the program in errors.
    program : FlowProgram
    time_limit_s : float, optional

    Raises
    ------
    TimeLimitError
        If time is up.
    InfeasibleError
        If there is no optimum.
    """
    if time_limit_s is not None and time_limit_s <= 0:  # some versions start all the same
        raise TimeLimitError(what)
    make_solver: Any = highspy.Highs  # its constructor has no type annotations
    solver = make_solver()
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("solver", "simplex" if len(program.costs) <= _SIMPLEX_VARIABLES else "ipm"),
        ("primal_feasibility_tolerance", TOLERANCE),
        ("dual_feasibility_tolerance", TOLERANCE),
        ("time_limit", highspy.kHighsInf if time_limit_s is None else time_limit_s),
    ):
        solver.setOptionValue(option, value)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(program.costs), len(program.lower)
    model.sense_ = highspy.ObjSense.kMaximize if program.maximise else highspy.ObjSense.kMinimize
    model.col_cost_ = program.costs
    model.col_lower_ = np.zeros(len(program.costs))
    model.col_upper_ = np.full(len(program.costs), highspy.kHighsInf)
    model.row_lower_, model.row_upper_ = program.lower, program.upper
    rows, columns, values = (
        np.concatenate([getattr(part, key) for part in program.entries])
        for key in ("rows", "columns", "values")
    )
    order = np.argsort(columns, kind="stable")
    starts = offsets_of(np.bincount(columns, minlength=len(program.costs)))
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = starts.astype(np.int32)
    model.a_matrix_.index_ = rows[order].astype(np.int32)
    model.a_matrix_.value_ = values[order]
    solver.passModel(model)
    solver.run()
    status = solver.getModelStatus()
    if status == highspy.HighsModelStatus.kTimeLimit:
        raise TimeLimitError(what)
    if status != highspy.HighsModelStatus.kOptimal:
        raise InfeasibleError(f"{what}: solver ended with {status.name}, expected an optimum")
    solution = solver.getSolution()
    return FlowSolution(np.maximum(np.array(solution.col_value), 0.0), np.abs(np.array(solution.row_dual)))
