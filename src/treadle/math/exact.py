"""Exact optima of linear programs, from bases that a solver in floats finds.

A basis is a guess that can be checked: the square integer system it stands for is solved exactly, and primal
and dual sides are compared in rationals. A solver in floats takes what is below its tolerance for 0. Where
that misleads it, the program is moved to the exact basic solution of its last basis and enlarged until what
was overlooked there is about 1 in size, then solved in floats again: the new basis overlooks far less, in the
end nothing. Iterative refinement of linear programs after Gleixner, Steffy and Wolter (INFORMS Journal on
Computing 28, 2016), with exact basic solutions in place of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush
from math import isqrt, lcm

import numpy as np

from treadle.arrays import BoolArray
from treadle.math.lp import OPTIMAL, Program

_PRIMES = (2**127 - 1, 2**521 - 1, 2**2203 - 1)
"""Mersenne primes: rationals with numerator and denominator below sqrt(p / 2) are recovered from residues."""

_LARGEST = 1e17
"""Of bounds and costs that solvers are given; they count 1e20 as infinite."""

_MOST_BITS = 1000
"""Powers of two that floats hold."""

Basis = tuple[BoolArray, BoolArray]
"""Which columns, and which rows' slacks, are basic."""


@dataclass(frozen=True)
class Vertex:
    """A basic solution in exact rationals.

    Parameters
    ----------
    primal : tuple of Fraction
        Per column.
    dual : tuple of Fraction
        Per row.
    """

    primal: tuple[Fraction, ...]
    dual: tuple[Fraction, ...]


@dataclass(frozen=True)
class LinearProgram:
    """Maximise ``costs . x`` subject to rows <= right-hand sides (or =) and x >= 0, all data integers.

    Parameters
    ----------
    rows : list of dict of column to coefficient
    rhs : list of int
    equality : list of bool
        Per row.
    costs : list of int
    """

    rows: list[dict[int, int]]
    rhs: list[int]
    equality: list[bool]
    costs: list[int]


@dataclass(frozen=True)
class OptimalityGap:
    """How far a basic solution is from an optimum.

    Parameters
    ----------
    primal, dual : Fraction
        The worst violation of a row or sign, of a reduced cost or a price's sign; 0 at an optimum.
    slacks, reduced : list of Fraction
        Right-hand side less row, per row; what one more of each column would gain at the prices of the rows.
    """

    primal: Fraction
    dual: Fraction
    slacks: list[Fraction]
    reduced: list[Fraction]

    @property
    def is_none(self) -> bool:
        """The solution is an optimum."""
        return not self.primal and not self.dual


def optimality_gap(program: LinearProgram, vertex: Vertex) -> OptimalityGap:
    """What a basic solution lacks of an optimum, exactly."""
    values, scale = over_common_denominator(vertex.primal)
    slacks = [
        Fraction(rhs * scale - sum(a * values[j] for j, a in row.items()), scale)
        for row, rhs in zip(program.rows, program.rhs, strict=True)
    ]
    prices, scale = over_common_denominator(vertex.dual)
    gains = [cost * scale for cost in program.costs]
    for row, price in zip(program.rows, prices, strict=True):
        if price:
            for j, a in row.items():
                gains[j] -= a * price
    reduced = [Fraction(gain, scale) for gain in gains]
    primal, dual = (
        max((-value for value in vertex.primal), default=Fraction(0)),
        max(reduced, default=Fraction(0)),
    )
    for slack, worth, equality in zip(slacks, vertex.dual, program.equality, strict=True):
        primal = max(primal, abs(slack) if equality else -slack)
        dual = max(dual, Fraction(0) if equality else -worth)
    return OptimalityGap(max(primal, Fraction(0)), max(dual, Fraction(0)), slacks, reduced)


def over_common_denominator(values: Sequence[Fraction]) -> tuple[list[int], int]:
    """Numerators of values over one denominator, and that."""
    scale = lcm(*(value.denominator for value in values))
    return [value.numerator * (scale // value.denominator) for value in values], scale


def refined_basis(
    program: LinearProgram, vertex: Vertex, basis: Basis, found: OptimalityGap, zoom: tuple[int, int]
) -> Basis | None:
    """The basis that a solver in floats finds for the program moved to `vertex` and blown up.

    Parameters
    ----------
    program : LinearProgram
    vertex : Vertex
        Of `basis`.
    basis : Basis
        To start from.
    found : OptimalityGap
        Of `vertex`.
    zoom : tuple of int
        Powers of two by which lengths and costs are multiplied.

    Returns
    -------
    Basis or None
        None if the solver fails.
    """
    n, equality = len(program.costs), np.array(program.equality, dtype=np.bool_)
    slack_rows = np.flatnonzero(~equality).tolist()
    # in steps away from the vertex; slacks are columns, which cost what their rows are worth
    slack_of = {row: n + place for place, row in enumerate(slack_rows)}
    entries = [{**row, slack_of[i]: 1} if i in slack_of else row for i, row in enumerate(program.rows)]
    right = [slack if equality[i] else Fraction(0) for i, slack in enumerate(found.slacks)]
    lower = [-value for value in (*vertex.primal, *(found.slacks[i] for i in slack_rows))]
    costs = [*found.reduced, *(-vertex.dual[i] for i in slack_rows)]
    sides = np.array([_blown_up(value, zoom[0]) for value in right])
    lp = Program(maximise=True, tolerance=1e-10, presolve="off")
    lp.load(
        np.array([_blown_up(value, zoom[1]) for value in costs]),
        sides,
        sides,
        [
            (
                np.repeat(np.arange(len(entries)), [*map(len, entries)]),
                np.array([j for row in entries for j in row], dtype=np.int64),
                np.array([a for row in entries for a in row.values()], dtype=np.float64),
            )
        ],
        columns_from=np.array([_blown_up(value, zoom[0]) for value in lower]),
        by_row=True,
    )
    columns, rows = basis
    lp.start_from([*columns, *rows[slack_rows]], rows & equality, upper_from=len(rows))
    if lp.run() != OPTIMAL:
        return None
    columns, rows = lp.basis()
    rows[slack_rows] |= columns[n:]  # a row's own logical and its slack are the same column
    return columns[:n], rows


def _blown_up(value: Fraction, bits: int) -> float:
    """value * 2**bits, cut off where solvers would take it for infinite."""
    scaled = value * 2**bits
    return float(max(min(scaled, _LARGEST), -_LARGEST)) if scaled else 0.0


def refinement_scale(worst: Fraction, before: int) -> int:
    """The power of two that makes the worst violation about 1, and never less than before."""
    if not worst:
        return before
    bits = worst.denominator.bit_length() - worst.numerator.bit_length()
    return min(max(before, bits), _MOST_BITS)


def vertex_of(
    program: LinearProgram, basis: Basis, near: tuple[Sequence[float], Sequence[float]]
) -> Vertex | None:
    """Return the exact solution of a basis, which is near these values and prices; None without one."""
    columns, tight = np.flatnonzero(basis[0]).tolist(), np.flatnonzero(~basis[1]).tolist()
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
        exact = [value for one in residues or () if (value := _reconstruct(one, prime)) is not None]
        if residues is not None and len(exact) == len(residues) and _holds(matrix, rhs, exact):
            return exact
    return None


def _holds(matrix: Iterable[Mapping[int, int]], rhs: Iterable[int], solution: Sequence[Fraction]) -> bool:
    scaled, scale = over_common_denominator(solution)
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
    if prime - residue <= limit:
        return Fraction(residue - prime)
    # Euclid's algorithm, left halfway: the first remainder within the limit is the numerator
    a, b, s, t = prime, residue, 0, 1
    while b > limit:
        quotient = a // b
        a, b, s, t = b, a - quotient * b, t, s - quotient * t
    return Fraction(b, t) if t and abs(t) <= limit else None
