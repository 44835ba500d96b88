"""Shares at the same rate in fewer units: whole multiples of a bandwidth that is as large as possible.

A vertex of the program of shares may have any denominators, and trees come in units that all of them are
multiples of. Most optima have shares in few units beside: a mixed-integer program finds them, whose flows
need not be whole. A link with a price carries all of its bandwidth at any optimum, so it holds a whole number
of units; that tells the fewest units that may do.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import gcd, lcm

import highspy
import numpy as np

from treadle.schedules.group_witness import GroupLengthWitness
from treadle.synthesis.trees.groups.rational_program import RationalProgram
from treadle.synthesis.trees.groups.share_program import Floats, make_solver
from treadle.synthesis.trees.groups.shares import RationalShares, fits
from treadle.watch import Watch

_TIMES = (1, 2, 3, 4, 6, 8, 12, 24)
"""How many of the fewest units are tried."""

_FEW = 2
"""Unit trees for each member with which shares are good enough."""

_MOST_ROWS = 4000
"""Beyond, the first whole solution may take a minute."""

_NODES = 64
"""Of the search tree; nearly all searches end at its root."""

_GAP = 1e-3
"""Part of the capacity in all that is not worth searching on."""


def whole_shares(
    rational: RationalProgram, known: RationalShares, witness: GroupLengthWitness, watch: Watch
) -> RationalShares | None:
    """Shares at the rate of known ones whose units are larger; None if none were found.

    Parameters
    ----------
    rational : RationalProgram
        Solved.
    known : RationalShares
        At the optimum.
    witness : GroupLengthWitness
        Proves that it is the optimum.
    watch : Watch
        When its deadline passes the search ends.
    """
    if rational.program.n_rows > _MOST_ROWS:
        return None
    units, size = _units(known), len(rational.program.groups[0].members)
    if units <= _FEW * size:
        return None
    fewest, most = _fewest(rational, known, witness), units // rational.total
    for times in _TIMES:
        count = fewest * times
        if count >= most or watch.is_late:
            break
        for found in _shares_in(rational, known.rate / rational.total, count, watch):
            if not fits(rational.union, rational.every.number, found):
                break
            is_served, missed = rational.served(found)
            if is_served:
                return found
            if missed is None or not rational.ask(missed):
                break
    return None


def _units(known: RationalShares) -> int:
    """Unit trees of each group."""
    values = {v for family in known.shares for shares in family for v in shares}
    return sum(known.roots[0]) // gcd(*values, *(v for roots in known.roots for v in roots))


def _fewest(rational: RationalProgram, known: RationalShares, witness: GroupLengthWitness) -> int:
    """A divisor of all numbers of units for each weight with which links that have a price are full."""
    capacity, rate = rational.program.capacity, known.rate / rational.total
    priced = [witness.lengths[link] > 0 for link in capacity.links.tolist()]
    return lcm(*((int(b) / rate).denominator for b in capacity.bandwidths[np.array(priced)]))


def _shares_in(
    rational: RationalProgram, rate: Fraction, count: int, watch: Watch
) -> Iterator[RationalShares]:
    """Shares in so many units for each weight; again while the caller asks for more sinks."""
    while True:
        values = _solved(rational, count, rate / count, watch)
        if values is None:
            return
        columns = [int(value) * (rate / count) for value in np.rint(values[: rational.program.n_own])]
        yield rational.as_shares(columns, rate)


def _solved(rational: RationalProgram, count: int, unit: Fraction, watch: Watch) -> Floats | None:
    """Columns of the mixed-integer program in units; None if it has no solution or none was found."""
    watch.announce("shares in few units")
    solver = make_solver(watch, rational.program.n_rows)
    for option, value in (("solver", "choose"), ("mip_max_nodes", _NODES), ("mip_rel_gap", _GAP)):
        solver.setOptionValue(option, value)
    solver.passModel(rational.program.leanest_whole(count, unit))
    solver.run()
    if solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    return np.array(solver.getSolution().col_value)
