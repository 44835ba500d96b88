"""Linear and integer programs in HiGHS: rows, columns, solving, bases. Nothing else imports the solver.

Which vertex is optimal decides which schedule is made, so every program has its own options of the solver.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treadle.arrays import BoolArray, Int64Array, offsets_of
from treadle.context import TimeLimitError, context
from treadle.errors import InfeasibleError

Floats = NDArray[np.float64]

Entries = tuple[Int64Array, Int64Array, Floats]
"""Coefficients: rows, columns and values."""

PRIMAL = 4
"""Option `simplex_strategy`: more columns leave a basis feasible."""

OPTIMAL = "kOptimal"
_OUT_OF_TIME = ("kTimeLimit", "kIterationLimit")

_LARGEST = 1e20
"""Links have up to 2^50 bytes/s. By default HiGHS leaves out rows with a coefficient above 1e15, silently."""

WIDE = 1e6
"""Ratio of bandwidths up to which a solver's tolerances, about 1e-9, are left to themselves."""


class Program:
    """Minimise or maximise costs . x, with rows and x >= 0 within bounds; rows and columns may be added.

    Parameters
    ----------
    what : str
        Its name in errors.
    maximise : bool
    tolerance : float, optional
        Of feasibility on both sides.
    **options
        Of HiGHS.
    """

    def __init__(
        self,
        what: str = "linear program",
        *,
        maximise: bool = False,
        tolerance: float | None = None,
        **options: object,
    ) -> None:
        import highspy  # here, because many commands load programs and few solve one

        self.what, self._highs = what, highspy
        make_solver: Any = highspy.Highs  # its constructor has no type annotations
        self.solver = make_solver()
        self._sense = highspy.ObjSense.kMaximize if maximise else highspy.ObjSense.kMinimize
        self._known: set[Hashable] = set()
        if tolerance is not None:
            options |= {"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance}
        self.set_options(output_flag=False, threads=1, large_matrix_value=_LARGEST, **options)
        self.solver.changeObjectiveSense(self._sense)

    def set_options(self, **options: object) -> None:
        """Set options of HiGHS."""
        for option, value in options.items():
            self.solver.setOptionValue(option, value)

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.solver.getNumCol())

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.solver.getNumRow())

    def row(self, lower: float, upper: float, columns: ArrayLike = (), values: ArrayLike = ()) -> int:
        """Append a row with its coefficients in existing columns; return its number."""
        index = np.asarray(columns, dtype=np.int32)
        self.solver.addRow(lower, upper, len(index), index, np.asarray(values, dtype=float))
        return self.n_rows - 1

    def empty_rows(self, lower: Floats, upper: Floats) -> None:
        """Append rows, to which columns are added."""
        none = np.zeros(0)
        starts = np.zeros(len(lower), dtype=np.int32)
        self.solver.addRows(len(lower), lower, upper, 0, starts, none.astype(np.int32), none)

    def is_new(self, key: Hashable) -> bool:
        """Whether the key differs from all keys before, as of columns that are added once."""
        size = len(self._known)
        self._known.add(key)
        return len(self._known) > size

    def column(
        self, cost: float = 0.0, rows: ArrayLike = (), values: ArrayLike = (), *, upper: float = np.inf
    ) -> int:
        """Append a variable with its coefficients in existing rows; return its number."""
        index = np.asarray(rows, dtype=np.int32)
        self.solver.addCol(cost, 0.0, upper, len(index), index, np.asarray(values, dtype=float))
        return self.n_columns - 1

    def columns(
        self,
        first: Int64Array,
        starts: Int64Array,
        rows: ArrayLike,
        values: ArrayLike,
        *,
        upper: float = np.inf,
    ) -> None:
        """Append variables of no cost: each has 1 in a first row, then its part of the rows and values."""
        count, others = len(first), np.asarray(rows)
        starts = starts + np.arange(count)
        index, value = np.empty(len(others) + count, dtype=np.int32), np.ones(len(others) + count)
        is_other = np.ones(len(index), dtype=np.bool_)
        is_other[starts] = False
        index[starts], index[is_other], value[is_other] = first, others, values
        zero = np.zeros(count)
        upper_bounds = np.full(count, upper)
        self.solver.addCols(
            count, zero, zero, upper_bounds, len(index), starts.astype(np.int32), index, value
        )

    def make_integer(self, first: int, stop: int, *, is_integer: bool = True) -> None:
        """Make a range of columns integers, or not."""
        number = np.arange(first, stop, dtype=np.int32)
        self.solver.changeColsIntegrality(
            len(number), number, np.full(len(number), int(is_integer), dtype=np.uint8)
        )

    def load(
        self,
        costs: Floats,
        lower: Floats,
        upper: Floats,
        entries: Sequence[Entries],
        *,
        columns_from: ArrayLike = 0.0,
        columns_to: ArrayLike = np.inf,
        by_row: bool = False,
    ) -> None:
        """Take a program over: bounds of rows and columns, coefficients as rows, columns and values."""
        n_rows, n = len(lower), len(costs)
        rows, columns, values = (np.concatenate(parts) for parts in zip(*entries, strict=True))
        major, minor, size = (rows, columns, n_rows) if by_row else (columns, rows, n)
        order = np.argsort(major, kind="stable")
        model = self._highs.HighsLp()
        model.num_col_, model.num_row_, model.sense_ = n, n_rows, self._sense
        model.col_cost_ = costs
        model.col_lower_, model.col_upper_ = np.full(n, columns_from), np.full(n, columns_to)
        model.row_lower_, model.row_upper_ = lower, upper
        formats, matrix = self._highs.MatrixFormat, model.a_matrix_
        matrix.format_ = formats.kRowwise if by_row else formats.kColwise
        matrix.start_ = offsets_of(np.bincount(major, minlength=size)).astype(np.int32)
        matrix.index_ = minor[order].astype(np.int32)
        matrix.value_ = values[order].astype(np.float64)
        self.solver.passModel(model)

    def suggest(self, values: Floats) -> None:
        """Begin from values of all columns."""
        start = self._highs.HighsSolution()
        start.col_value = values.tolist()
        self.solver.setSolution(start)

    def run(self, *, least_s: float | None = None) -> str:
        """Solve, if `least_s` is given in the time that is left, at least so much; return how it ended.

        Raises
        ------
        TimeLimitError
            If there was no time left to start.
        """
        left = context().seconds_left
        if least_s is not None and left is not None:
            left = max(left, least_s)
            if not left:  # some versions solve small programs before they look at the clock
                raise TimeLimitError(self.what)
            # the solver's clock goes on from run to run
            self.set_options(time_limit=self.solver.getRunTime() + left)
        self.solver.run()
        return str(self.solver.getModelStatus().name)

    def optimum(self, *, least_s: float | None = None) -> tuple[Floats, Floats] | None:
        """Return the values of columns and the duals of rows, None where the solver ends without an optimum.

        Raises
        ------
        TimeLimitError
            If time was up.
        """
        status = self.run(least_s=least_s)
        if status in _OUT_OF_TIME:
            raise TimeLimitError(self.what)
        return self.solution() if status == OPTIMAL else None

    def solve(self, *, least_s: float | None = None, bandwidths: ArrayLike = 1) -> tuple[Floats, Floats]:
        """Return the same of a program that has an optimum.

        Parameters
        ----------
        least_s : float, optional
            Seconds, even if less time is left; default no limit.
        bandwidths : array of int
            Of the links: an error says if they are too far apart for floats.

        Raises
        ------
        TimeLimitError
            If time was up.
        InfeasibleError
            If the solver ended without an optimum.
        """
        found = self.optimum(least_s=least_s)
        if found is not None:
            return found
        raise no_optimum(self.what, self.status, bandwidths)

    @property
    def status(self) -> str:
        """Status with which the last run ended."""
        return str(self.solver.getModelStatus().name)

    @property
    def iterations(self) -> int:
        """Simplex iterations of the last run."""
        return int(self.solver.getInfo().simplex_iteration_count)

    @property
    def integer_bound(self) -> float:
        """Bound of the costs of all integer solutions."""
        return float(self.solver.getInfo().mip_dual_bound)

    @property
    def integer_gap(self) -> float:
        """Distance of the best solution from that bound, as a share."""
        return float(self.solver.getInfo().mip_gap)

    @property
    def is_feasible(self) -> bool:
        """Whether the last run found a solution, the best or not."""
        feasible = self._highs.SolutionStatus.kSolutionStatusFeasible
        return bool(self.solver.getInfo().primal_solution_status == int(feasible))

    def solution(self) -> tuple[Floats, Floats]:
        """Return the values of columns and the duals of rows that the last run found."""
        found = self.solver.getSolution()
        return np.array(found.col_value, dtype=float), np.array(found.row_dual, dtype=float)

    def entries(self) -> Entries:
        """Return all coefficients."""
        model = self.solver.getLp()
        matrix = model.a_matrix_
        minor, values = np.array(matrix.index_, dtype=np.int64), np.array(matrix.value_, dtype=np.float64)
        starts = np.array(matrix.start_, dtype=np.int64)
        major = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        is_by_column = matrix.format_ == self._highs.MatrixFormat.kColwise
        return (minor, major, values) if is_by_column else (major, minor, values)

    def basis(self) -> tuple[BoolArray, BoolArray]:
        """Return which columns and which rows are basic."""
        found, basic = self.solver.getBasis(), self._highs.HighsBasisStatus.kBasic
        columns, rows = (
            np.array([one == basic for one in some], dtype=np.bool_)
            for some in (found.col_status, found.row_status)
        )
        return columns, rows

    def start_from(self, columns: Iterable[bool], rows: Iterable[bool], *, upper_from: int) -> None:
        """Begin from a basis; other rows are at lower bounds, from `upper_from` on at upper ones."""
        status, basis = self._highs.HighsBasisStatus, self._highs.HighsBasis()
        basis.col_status = [status.kBasic if is_in else status.kLower for is_in in columns]
        basis.row_status = [
            status.kBasic if is_in else status.kUpper if row >= upper_from else status.kLower
            for row, is_in in enumerate(rows)
        ]
        basis.valid = True
        self.solver.setBasis(basis)


def no_optimum(what: str, status: str, bandwidths: ArrayLike) -> InfeasibleError:
    """Return the error for a program that has an optimum, which the solver did not find.

    Parameters
    ----------
    what : str
        The program.
    status : str
        How the solver ended.
    bandwidths : array of int, shape (m,)
        Of the links, bytes/s.
    """
    message = f"{what}: solver ended with {status}, expected an optimum"
    ratio = float(np.max(bandwidths, initial=1)) / float(np.min(bandwidths, initial=2**50))
    if ratio >= WIDE:
        message += (
            f"; the widest link has {ratio:.3g} times the bandwidth of the narrowest: more than "
            "floating point resolves; leave the narrowest links out, or widen them"
        )
    return InfeasibleError(message)
