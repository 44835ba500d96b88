"""Shares at the same rate in fewer units: whole multiples of a bandwidth that is as large as possible.

A vertex of the program of shares may have any denominators, and trees come in units that all of them are
multiples of. Most optima have shares in few units beside. A link with a price carries all of its bandwidth at
any optimum, so it holds a whole number of units; that tells the fewest units that may do. They are looked for
by rounding one share after the other, each time with a new optimum of all others, and where that fails on a
small program by a mixed-integer one. Flows need not be whole.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd, lcm

import numpy as np

from treadle.arrays import Int64Array
from treadle.context import context
from treadle.math.lp import OPTIMAL, Program
from treadle.schedules.group_certificate import GroupDualCertificate
from treadle.synthesis.trees.groups.cheapest_trees import Floats
from treadle.synthesis.trees.groups.rational_allocation import RationalAllocation, fits
from treadle.synthesis.trees.groups.rational_program import RationalProgram
from treadle.synthesis.trees.groups.supplied_sinks import missed_sinks

_TIMES = (1, 2, 3, 4, 6, 8, 12, 24)
"""How many of the fewest units are tried."""

_FEW = 2
"""Unit trees for each member with which shares are good enough."""

_LARGE_ROWS = 4000
"""Beyond, a few seconds go by until a search has failed: then there are fewer of them."""

_LARGE_TRIALS = 2

_WHOLE = 1e-6
"""How far from a whole number a share of the solver may be."""

_TICKS = 2**20
"""Parts of a unit in which shares that are not whole are looked at."""

_MOST_FLIPS = 16
"""Shares that turn out to be rounded the wrong way before a search is given up."""

_SEARCH_ROWS, _SEARCH_UNITS = 1000, 500
"""A mixed-integer program is solved up to so many rows, where shares have at least so many units."""

_SEARCHES, _SEARCH_NODES, _SEARCH_GAP = 3, 64, 1e-3
"""How many, with how many nodes, and what part of the capacity in all is not worth searching on."""

_LEAST_S = 0.1
"""Seconds of a solve, even if less time is left."""

_ITERATION_WORK, _INTERIOR = 100, 100
"""Of a row in an iteration, nanoseconds; simplex iterations that one of interior points is worth."""


def integral_group_allocation(
    rational: RationalProgram, rate: Fraction, witness: GroupDualCertificate, *, units: int
) -> RationalAllocation | None:
    """Shares at the optimum in fewer units than are known to do; None if none were found.

    Parameters
    ----------
    rational : RationalProgram
    rate : Fraction
        The optimum, bytes/s.
    witness : GroupDualCertificate
        Proves that no rate is larger.
    units : int
        Unit trees of each group that are known to do.
    """
    program = rational.program
    if units <= _FEW * len(program.groups[0].members):
        return None
    # a divisor of all numbers of units for each weight with which links that have a price are full
    priced = [witness.lengths[link] > 0 for link in program.capacity.links.tolist()]
    bandwidths, each = program.capacity.bandwidths[np.array(priced)], rate / rational.total
    fewest, most = lcm(*((int(b) / each).denominator for b in bandwidths)), units // rational.total
    searches = _SEARCHES if program.n_rows <= _SEARCH_ROWS and units >= _SEARCH_UNITS else 0
    for trial, times in enumerate(_TIMES[:_LARGE_TRIALS] if program.n_rows > _LARGE_ROWS else _TIMES):
        count = fewest * times
        if count >= most or context().is_late:
            break
        found = _shares_in(rational, each, count, can_search=trial < searches)
        if found is not None:
            return found
    return None


def _shares_in(
    rational: RationalProgram, rate: Fraction, count: int, *, can_search: bool
) -> RationalAllocation | None:
    """The first shares in `count` units for each weight that pass all checks; None if none were found."""
    program, unit, families = rational.program, rate / count, rational.program.families
    # ask for all sinks that shares miss before anything is rounded: one solution a time
    while (
        not context().is_late and (near := _optimum(program.leanest(count, unit), program.n_own)) is not None
    ):
        # a little more than the solver says, so that its tolerance misses no sink
        more = [Fraction(int(np.ceil(v * _TICKS)), _TICKS) * unit for v in near]
        missing = list(missed_sinks(rational.every, families, rational.as_allocation(more, rate)))
        if not sum(map(rational.add_sink, missing)):
            break
    while True:
        context().announce("shares in few units")
        values = None
        for upwards in (False,) if program.n_rows > _LARGE_ROWS else (False, True):
            if values is None:
                values = _rounded(program.leanest(count, unit), program.n_own, count, upwards=upwards)
        if values is None and can_search:
            values = _searched(program.leanest(count, unit), program.n_own)
        if values is None:
            return None
        found = rational.as_allocation([int(v) * rate / count for v in values], rate)
        if not fits(rational.union, rational.every.number, found):
            return None
        is_served, missed = rational.find_unmet(found)
        if is_served:
            return found
        if missed is None or not rational.add_sink(missed):
            return None


def units_of(known: RationalAllocation) -> int:
    """Unit trees of each group that fill shares."""
    values = {v for family in known.shares for shares in family for v in shares}
    return sum(known.roots[0]) // gcd(*values, *(v for roots in known.roots for v in roots))


def _rounded(lp: Program, n_own: int, count: int, *, upwards: bool) -> Int64Array | None:
    """Round the share that is nearest to a whole number, or to the next one, and solve again, until all are.

    Parameters
    ----------
    lp : Program
    n_own : int
        Columns that are to be whole, the first of which is `count`.
    """
    lower, upper = np.zeros(n_own), np.full(n_own, np.inf)
    lower[0] = upper[0] = count
    values, flips = _optimum(lp, n_own), 0
    # from here on a basis is known that is nearly optimal
    lp.set_options(solver="simplex")
    while values is not None and flips <= _MOST_FLIPS and not context().is_late:
        off = np.abs(values - np.rint(values))
        broken = np.flatnonzero(off > _WHOLE)
        if not len(broken):
            return np.rint(values).astype(np.int64)
        way = (np.ceil(values) - values if upwards else off)[broken]
        chosen = int(broken[np.argmin(way)])
        value, values = values[chosen], None
        ranges = [(lower[chosen], np.floor(value)), (np.ceil(value), upper[chosen])]
        for low, high in reversed(ranges) if np.rint(value) > value else ranges:
            lp.solver.changeColBounds(chosen, low, high)
            values = _optimum(lp, n_own)
            if values is not None:
                lower[chosen], upper[chosen] = low, high
                break
            flips += 1
    return None


def _optimum(lp: Program, n_own: int) -> Floats | None:
    """The first columns of an optimum, None if there is none or the time was up."""
    status = lp.run(least_s=_LEAST_S)
    _count(lp)
    return lp.solution()[0][:n_own] if status == OPTIMAL else None


def _count(lp: Program) -> None:
    """Take what a solve took from the budget."""
    iterations = lp.iterations + _INTERIOR * int(lp.solver.getInfo().ipm_iteration_count)
    context().spend((1 + iterations) * _ITERATION_WORK * lp.n_rows)


def _searched(lp: Program, n_own: int) -> Int64Array | None:
    """Whole values of the first columns by branch and bound; None if there are none or none were found."""
    lp.make_integer(0, n_own)
    # no trial branching, which takes longest
    lp.set_options(mip_pscost_minreliable=0, mip_max_nodes=_SEARCH_NODES, mip_rel_gap=_SEARCH_GAP)
    lp.set_options(solver="choose")
    lp.run(least_s=_LEAST_S)
    _count(lp)
    return np.rint(lp.solution()[0][:n_own]).astype(np.int64) if lp.is_feasible else None
