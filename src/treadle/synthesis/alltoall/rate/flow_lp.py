"""Linear programs of flows over links."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.context import TimeLimitError
from treadle.errors import ScheduleError
from treadle.math.lp import Entries, Program
from treadle.synthesis.alltoall.rate.flow_instance import FloatArray

TOLERANCE = 1e-9
"""Of feasibility and optimality."""

_SIMPLEX_VARIABLES = 8_000
"""Beyond this an interior point with crossover is quicker; both end in a basic solution."""


def check_variables(what: str, variables: int, limit: int, remedy: str) -> None:
    """Refuse a program of too many variables in one line."""
    if variables > limit:
        raise ScheduleError(f"{what}: {variables} flow variables, expected at most {limit}; {remedy}")


def solve_flow_program(
    what: str,
    costs: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    entries: Sequence[Entries],
    *,
    maximise: bool = False,
    time_limit_s: float | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return an optimal basic solution, and what one more unit of each row's limit is worth.

    Parameters
    ----------
    what : str
        Names the program in errors.
    costs : array of float64, shape (columns,)
    lower, upper : arrays of float64, shape (rows,)
        Infinite where a row has no such side.
    entries : sequence of Entries
    maximise : bool
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
    method = "simplex" if len(costs) <= _SIMPLEX_VARIABLES else "ipm"
    limit = np.inf if time_limit_s is None else time_limit_s
    lp = Program(what, maximise=maximise, tolerance=TOLERANCE, solver=method, time_limit=limit)
    lp.load(costs, lower, upper, entries)
    values, duals = lp.solve()
    return np.maximum(values, 0.0), np.abs(duals)
