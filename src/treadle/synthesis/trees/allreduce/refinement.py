"""Optimal bases of linear programs whose numbers are too far apart for floats: blow up and solve again.

A solver in floats takes what is below its tolerance for 0. So the program is moved to the exact basic
solution of its last basis and blown up until what was overlooked there is about 1 in size, then solved in
floats again: the new basis overlooks far less, in the end nothing. Iterative refinement of linear programs
after Gleixner, Steffy and Wolter (INFORMS Journal on Computing 28, 2016), with exact basic solutions in place
of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from treadle.math.lp import OPTIMAL, Program

_LARGEST = 1e17
"""Of bounds and costs that solvers are given; they count 1e20 as infinite."""

_MOST_BITS = 1000
"""Powers of two that floats hold."""


@dataclass(frozen=True)
class Basis:
    """Which columns, and which rows' slacks, are basic.

    Parameters
    ----------
    columns, rows : tuple of bool
    """

    columns: tuple[bool, ...]
    rows: tuple[bool, ...]


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
    rows : sequence of mapping of column to coefficient
    rhs : sequence of int
    equality : sequence of bool
        Per row.
    costs : sequence of int
    """

    rows: Sequence[Mapping[int, int]]
    rhs: Sequence[int]
    equality: Sequence[bool]
    costs: Sequence[int]

    def slacks(self, primal: Sequence[Fraction]) -> list[Fraction]:
        """Right-hand side less row, per row."""
        values, scale = _over_common_denominator(primal)
        return [
            Fraction(rhs * scale - sum(a * values[j] for j, a in row.items()), scale)
            for row, rhs in zip(self.rows, self.rhs, strict=True)
        ]

    def reduced_costs(self, dual: Sequence[Fraction]) -> list[Fraction]:
        """What one more of each column would gain at these prices of the rows; at most 0 at an optimum."""
        prices, scale = _over_common_denominator(dual)
        reduced = [cost * scale for cost in self.costs]
        for row, price in zip(self.rows, prices, strict=True):
            if price:
                for j, a in row.items():
                    reduced[j] -= a * price
        return [Fraction(value, scale) for value in reduced]


def _over_common_denominator(values: Sequence[Fraction]) -> tuple[list[int], int]:
    scale = lcm(*(value.denominator for value in values))
    return [value.numerator * (scale // value.denominator) for value in values], scale


@dataclass(frozen=True)
class OptimalityGap:
    """How far a basic solution is from an optimum.

    Parameters
    ----------
    primal, dual : Fraction
        The worst violation of a row or sign, of a reduced cost or a price's sign; 0 at an optimum.
    slacks, reduced : list of Fraction
        Per row, per column.
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
    slacks, reduced = program.slacks(vertex.primal), program.reduced_costs(vertex.dual)
    primal = max((-value for value in vertex.primal), default=Fraction(0))
    dual = max(reduced, default=Fraction(0))
    for slack, price, equality in zip(slacks, vertex.dual, program.equality, strict=True):
        primal = max(primal, abs(slack) if equality else -slack)
        dual = max(dual, Fraction(0) if equality else -price)
    return OptimalityGap(max(primal, Fraction(0)), max(dual, Fraction(0)), slacks, reduced)


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
    slack_rows = [i for i, equality in enumerate(program.equality) if not equality]
    lp, n = Program(maximise=True, tolerance=1e-10, presolve="off"), len(program.costs)
    _load_moved(lp, program, vertex, found, slack_rows, zoom)
    slack_of, of_slacks = frozenset(slack_rows), [basis.rows[i] for i in slack_rows]
    in_rows = [is_in and i not in slack_of for i, is_in in enumerate(basis.rows)]
    lp.start_from([*basis.columns, *of_slacks], in_rows, upper_from=len(in_rows))
    if lp.run() != OPTIMAL:
        return None
    columns, rows = (some.tolist() for some in lp.basis())
    for place, row in enumerate(slack_rows):  # a row's own logical and its slack are the same column
        rows[row] = rows[row] or columns[n + place]
    return Basis(tuple(columns[:n]), tuple(rows))


def _load_moved(
    lp: Program,
    program: LinearProgram,
    vertex: Vertex,
    found: OptimalityGap,
    slack_rows: Sequence[int],
    zoom: tuple[int, int],
) -> None:
    """The program in steps away from the vertex; slacks are columns, which cost what their rows are worth."""
    n = len(program.costs)
    lower = [-value for value in (*vertex.primal, *(found.slacks[i] for i in slack_rows))]
    costs = [*found.reduced, *(-vertex.dual[i] for i in slack_rows)]
    right = [slack if program.equality[i] else Fraction(0) for i, slack in enumerate(found.slacks)]
    sides = np.array([_blown_up(value, zoom[0]) for value in right])
    slack_of = {row: n + place for place, row in enumerate(slack_rows)}
    entries = [{**row, slack_of[i]: 1} if i in slack_of else row for i, row in enumerate(program.rows)]
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


def _blown_up(value: Fraction, bits: int) -> float:
    """value * 2**bits, cut off where solvers would take it for infinite."""
    scaled = value * 2**bits
    return float(max(min(scaled, _LARGEST), -_LARGEST)) if scaled else 0.0


def zoom_of(worst: Fraction, before: int) -> int:
    """The power of two that makes the worst violation about 1, and never less than before."""
    if not worst:
        return before
    bits = worst.denominator.bit_length() - worst.numerator.bit_length()
    return min(max(before, bits), _MOST_BITS)
