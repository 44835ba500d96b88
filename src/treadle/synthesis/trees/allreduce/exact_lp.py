"""Linear programs that grow by rows and columns, solved in floats and then exactly on the final basis.

A basis is a guess that can be checked: the square integer system it stands for is solved exactly, and primal
and dual sides are compared in rationals. Only a basis that passes is an optimum; no tolerance enters the
result. Where floats do not lead to such a basis, `refinement` moves and blows up the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush
from math import isqrt, lcm

import numpy as np

from treadle.context import UNLIMITED, context, under
from treadle.errors import InfeasibleError
from treadle.math.lp import OPTIMAL, Program
from treadle.synthesis.trees.allreduce.refinement import (
    Basis,
    LinearProgram,
    Vertex,
    optimality_gap,
    refined_basis,
    zoom_of,
)

_PRIMES = (2**127 - 1, 2**521 - 1, 2**2203 - 1)
"""Mersenne primes: rationals with numerator and denominator below sqrt(p / 2) are recovered from residues."""

_REFINEMENTS = 24

_ITERATION_WORK, _ENTRY_WORK = 300, 2000
"""Nanoseconds of a simplex iteration for each row and column, and of an entry in exact elimination."""


class GrowingLp:
    """Maximise c.x subject to rows <= right-hand sides (or =) and x >= 0, all data integers."""

    def __init__(self) -> None:
        self._columns: list[dict[int, int]] = []
        self._costs: list[int] = []
        self._rows: list[dict[int, int]] = []
        self._rhs: list[int] = []
        self._equality: list[bool] = []
        self._lp = Program(maximise=True, tolerance=1e-10)
        self.scale = 1
        self._work = 0

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self._costs)

    def add_column(self, cost: int, coefficients: Mapping[int, int] | None = None) -> int:
        """Append a variable x >= 0 with its coefficients in existing rows; returns its number."""
        column = dict(coefficients or {})
        for row, value in column.items():
            self._rows[row][len(self._costs)] = value
        self._columns.append(column)
        self._costs.append(cost)
        return self._lp.column(float(cost), [*column], [*column.values()])

    def add_row(self, coefficients: Mapping[int, int], upper: int = 0, *, equality: bool = False) -> int:
        """Append ``coefficients . x <= rhs`` (or =); returns its number. Set `scale` first."""
        number = len(self._rows)
        for column, value in coefficients.items():
            self._columns[column][number] = value
        self._rows.append(dict(coefficients))
        self._rhs.append(upper)
        self._equality.append(equality)
        scaled = upper / self.scale
        lower = scaled if equality else -np.inf
        return self._lp.row(lower, scaled, [*coefficients], [*coefficients.values()])

    def take_work(self) -> int:
        """Work since the last call, in nanoseconds of the reference machine, counted and not timed."""
        work, self._work = self._work, 0
        return work

    def solve(self) -> tuple[list[float], list[float]]:
        """Columns' values in units of `scale`, and rows' duals, as floats."""
        status = self._lp.run()
        self._work += (1 + self._lp.iterations) * (len(self._rows) + len(self._costs)) * _ITERATION_WORK
        if status == OPTIMAL:
            values, duals = self._lp.solution()
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
        closer look (`refinement`). None if that fails.

        Raises
        ------
        TimeLimitError
            If the deadline passed.
        """
        columns, rows = self._lp.basis()
        if (len(columns), len(rows)) != (len(self._costs), len(self._rows)):  # the solver failed
            return self._refined(self._idle_basis())
        return self._refined(Basis(tuple(columns.tolist()), tuple(rows.tolist())))

    def _refined(self, basis: Basis) -> Vertex | None:
        """The optimum found from a basis, which the solver then goes on from."""
        program = LinearProgram(self._rows, self._rhs, self._equality, self._costs)
        zoom = -self.scale.bit_length(), 0
        for done in range(_REFINEMENTS):
            vertex = self._vertex(basis)
            context().spend(self.take_work())
            if vertex is None:
                return None
            found = optimality_gap(program, vertex)
            if found.is_none:
                if done:
                    self._lp.start_from(basis.columns, basis.rows, upper_from=0)
                return vertex
            context().report("refinement", done, _REFINEMENTS)
            zoom = zoom_of(found.primal, zoom[0]), zoom_of(found.dual, zoom[1])
            finer = refined_basis(program, vertex, basis, found, zoom)
            if finer is None:
                return None
            basis = finer
        return None

    def _idle_basis(self) -> Basis:
        return Basis((False,) * len(self._costs), (True,) * len(self._rows))

    def _vertex(self, basis: Basis) -> Vertex | None:
        self._work += sum(basis.columns) * sum(map(len, self._rows)) * _ENTRY_WORK
        near, prices = (values.tolist() for values in self._lp.solution())
        if len(near) != len(self._costs) or len(prices) != len(self._rows):  # the solver failed
            near, prices = [0.0] * len(self._costs), [0.0] * len(self._rows)
        program = LinearProgram(self._rows, self._rhs, self._equality, self._costs)
        return vertex_of(program, basis, ([value * self.scale for value in near], prices))


def vertex_of(
    program: LinearProgram, basis: Basis, near: tuple[Sequence[float], Sequence[float]]
) -> Vertex | None:
    """Return the exact solution of a basis, which is near these values and prices; None without one."""
    columns = [j for j, is_basic in enumerate(basis.columns) if is_basic]
    tight = [i for i, is_basic in enumerate(basis.rows) if not is_basic]
    if len(columns) != len(tight):
        return None
    place = {j: position for position, j in enumerate(columns)}
    matrix = [{place[j]: a for j, a in program.rows[i].items() if j in place} for i in tight]
    transposed: list[dict[int, int]] = [{} for _ in columns]
    for position, row in enumerate(matrix):
        for j, a in row.items():
            transposed[j][position] = a
    values = _solve_near(matrix, [program.rhs[i] for i in tight], [near[0][j] for j in columns])
    duals = _solve_near(transposed, [program.costs[j] for j in columns], [near[1][i] for i in tight])
    if values is None or duals is None:
        return None
    primal, dual = dict(zip(columns, values, strict=True)), dict(zip(tight, duals, strict=True))
    return Vertex(
        tuple(primal.get(j, Fraction(0)) for j in range(len(program.costs))),
        tuple(dual.get(i, Fraction(0)) for i in range(len(program.rows))),
    )


def _solve_near(
    matrix: Sequence[Mapping[int, int]], rhs: Sequence[int], guess: Iterable[float]
) -> list[Fraction] | None:
    """The exact solution: mostly the simplest rationals near `guess`, which one product confirms."""
    simple = [Fraction(value).limit_denominator(1000) for value in guess]
    return simple if _holds(matrix, rhs, simple) else solve_exactly(matrix, rhs)


def solve_exactly(matrix: Sequence[Mapping[int, int]], rhs: Sequence[int]) -> list[Fraction] | None:
    """The solution of a sparse square integer system, None if it is singular (or its numbers huge).

    Parameters
    ----------
    matrix : sequence of mappings
        Per row, column -> coefficient.
    rhs : sequence of int

    Notes
    -----
    Elimination modulo one large prime (sparsest row first), rational reconstruction, exact check.
    """
    # a system may be singular modulo one prime by accident, or its numbers too long for it: then a larger one
    for prime in _PRIMES:
        residues = _solve_modulo(matrix, rhs, prime)
        if residues is None:
            continue
        solution = [_reconstruct(residue, prime) for residue in residues]
        if all(value is not None for value in solution):
            exact = [value for value in solution if value is not None]
            if _holds(matrix, rhs, exact):
                return exact
    return None


def _holds(matrix: Iterable[Mapping[int, int]], rhs: Iterable[int], solution: Sequence[Fraction]) -> bool:
    scale = lcm(*(value.denominator for value in solution))
    scaled = [int(value * scale) for value in solution]
    return all(
        sum(a * scaled[j] for j, a in row.items()) == value * scale
        for row, value in zip(matrix, rhs, strict=True)
    )


def _solve_modulo(matrix: Sequence[Mapping[int, int]], rhs: Sequence[int], prime: int) -> list[int] | None:
    rows = [{j: a % prime for j, a in row.items() if a % prime} for row in matrix]
    values = [value % prime for value in rhs]
    holders: list[set[int]] = [set() for _ in rows]
    for i, row in enumerate(rows):
        for j in row:
            holders[j].add(i)

    def eliminate(i: int, j: int, other: int) -> None:
        """Subtract the scaled pivot row i from row `other`, so that column j vanishes there."""
        row = rows[other]
        factor = row.pop(j)
        values[other] = (values[other] - factor * values[i]) % prime
        for column, a in rows[i].items():
            if column == j:
                continue
            value = (row.get(column, 0) - factor * a) % prime
            if value:
                if column not in row:
                    holders[column].add(other)
                row[column] = value
            elif column in row:
                del row[column]
                holders[column].discard(other)

    waiting = [(len(row), i) for i, row in enumerate(rows)]
    heapify(waiting)  # a row that has changed is in it again; what it was before is passed over
    pivots: list[tuple[int, int]] = []
    done = [False] * len(rows)
    while waiting:
        # the shortest row, and in it the rarest column: that fills in least
        length, i = heappop(waiting)
        if done[i] or length != len(rows[i]):
            continue
        if not rows[i]:
            return None
        done[i] = True
        j = min(rows[i], key=lambda j: (len(holders[j]), j))
        for column in rows[i]:
            holders[column].discard(i)
        inverse = pow(rows[i][j], -1, prime)
        if inverse != 1:
            rows[i] = {column: a * inverse % prime for column, a in rows[i].items()}
            values[i] = values[i] * inverse % prime
        for other in holders[j]:
            eliminate(i, j, other)
            heappush(waiting, (len(rows[other]), other))
        holders[j] = set()
        pivots.append((i, j))
    solution = [0] * len(rows)
    for i, j in reversed(pivots):
        solution[j] = (values[i] - sum(a * solution[c] for c, a in rows[i].items() if c != j)) % prime
    return solution


def _reconstruct(residue: int, prime: int) -> Fraction | None:
    """The rational n/d = residue modulo prime with |n|, d <= sqrt(prime / 2), if there is one."""
    limit = isqrt(prime // 2)
    if residue <= limit:
        return Fraction(residue)
    if prime - residue <= limit:
        return Fraction(residue - prime)
    # Euclid's algorithm, left halfway: the first remainder within the limit is the numerator
    a, b, s, t = prime, residue, 0, 1
    while b > limit:
        quotient = a // b
        a, b, s, t = b, a - quotient * b, t, s - quotient * t
    if not t or abs(t) > limit:
        return None
    return Fraction(b, t)
