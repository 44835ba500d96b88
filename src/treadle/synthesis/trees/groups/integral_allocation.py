"""Shares at the same rate in fewer units: whole multiples of a bandwidth that is as large as possible.

A vertex of the program of shares may have any denominators, and trees come in units that all of them are
multiples of. Most optima also have allocations in few units. A link with a price carries all of its bandwidth
at any optimum, so it holds an integral number of units; that gives the fewest possible units. They are
searched for by rounding one share after the other, each time with a new optimum of all others, and where that
fails on a small program by a mixed-integer one. Flows need not be whole.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd, lcm

import numpy as np

from treadle.arrays import Int64Array
from treadle.context import context
from treadle.math.lp import OPTIMAL, Program
from treadle.schedules.group_certificate import GroupDualCertificate
from treadle.synthesis.trees.groups.allocation_lp import AllocationLp
from treadle.synthesis.trees.groups.cheapest_trees import Floats
from treadle.synthesis.trees.groups.rational_allocation import RationalAllocation, fits
from treadle.synthesis.trees.groups.supplied_sinks import find_unmet, missed_sinks

_TIMES = (1, 2, 3, 4, 6, 8, 12, 24)
"""Number of smallest unit counts that are tried."""

_FEW = 2
"""Unit trees for each member with which shares are good enough."""

_LARGE_ROWS = 4000
"""Beyond, a few seconds go by until a search has failed: then there are fewer of them."""

_LARGE_TRIALS = 2

_WHOLE = 1e-6
"""Largest distance of a solver's allocation from an integer."""

_TICKS = 2**20
"""Parts of a unit in which shares that are not whole are looked at."""

_MOST_FLIPS = 16
"""Shares that turn out to be rounded the wrong way before a search is given up."""

_SEARCH_ROWS, _SEARCH_UNITS = 1000, 500
"""Largest rows of a mixed-integer program, and least units of allocations for it."""

_SEARCHES, _SEARCH_NODES, _SEARCH_GAP = 3, 64, 1e-3
"""Limits: programs, nodes, and fraction of the total capacity that ends the search."""

_LEAST_S = 0.1
"""Seconds of a solve, even if less time is left."""

_ITERATION_WORK, _INTERIOR = 100, 100
"""Cost of a row in an iteration, nanoseconds; simplex iterations per interior-point iteration."""


def integral_group_allocation(
    program: AllocationLp, rate: Fraction, certificate: GroupDualCertificate, *, units: int
) -> RationalAllocation | None:
    """Return shares at the optimum in fewer than `units` unit trees of each group; None if none were found.

    `rate` is the optimum in bytes/s, and `certificate` proves that no rate is larger.
    """
    if units <= _FEW * len(program.groups[0].members):
        return None
    # a divisor of all numbers of units for each weight with which links that have a price are full
    priced = [certificate.lengths[link] > 0 for link in program.capacity.links.tolist()]
    bandwidths, each = program.capacity.bandwidths[np.array(priced)], rate / program.total
    fewest, most = lcm(*((int(b) / each).denominator for b in bandwidths)), units // program.total
    searches = _SEARCHES if program.n_rows <= _SEARCH_ROWS and units >= _SEARCH_UNITS else 0
    for trial, times in enumerate(_TIMES[:_LARGE_TRIALS] if program.n_rows > _LARGE_ROWS else _TIMES):
        count = fewest * times
        if count >= most or context().is_late:
            break
        found = _shares_in(program, each, count, can_search=trial < searches)
        if found is not None:
            return found
    return None


def _shares_in(
    program: AllocationLp, rate: Fraction, count: int, *, can_search: bool
) -> RationalAllocation | None:
    """Return shares in `count` units for each weight that pass all checks; None if none were found."""
    unit, n_own, every = rate / count, program.n_own, program.every
    # add all sinks that shares do not supply before anything is rounded, one solution at a time
    while not context().is_late and (near := _optimum(program.leanest(count, unit), n_own)) is not None:
        # a little more than the solver's values, so that its tolerance leaves no sink without supply
        more = [Fraction(int(np.ceil(v * _TICKS)), _TICKS) * unit for v in near]
        missing = list(missed_sinks(every, program.families, program.as_allocation(more, rate)))
        if not sum(map(program.add_sink, missing)):
            break
    while True:
        context().announce("shares in few units")
        values = None
        for upwards in (False,) if program.n_rows > _LARGE_ROWS else (False, True):
            if values is None:
                values = _rounded(program.leanest(count, unit), n_own, count, upwards=upwards)
        if values is None and can_search:
            lp = program.leanest(count, unit)
            lp.make_integer(0, n_own)
            # no trial branching, which takes longest
            lp.set_options(mip_pscost_minreliable=0, mip_max_nodes=_SEARCH_NODES, mip_rel_gap=_SEARCH_GAP)
            lp.set_options(solver="choose")
            _run(lp)
            if lp.is_feasible:
                values = np.rint(lp.solution()[0][:n_own]).astype(np.int64)
        if values is None:
            return None
        found = program.as_allocation([int(v) * unit for v in values], rate)
        if not fits(every.union, every.number, found):
            return None
        is_served, missed = find_unmet(every, program.families, found)
        if is_served:
            return found
        if missed is None or not program.add_sink(missed):
            return None


def units_of(known: RationalAllocation) -> int:
    """Return the number of unit trees of each group that fill its shares."""
    values = {v for family in known.shares for shares in family for v in shares}
    return sum(known.roots[0]) // gcd(*values, *(v for roots in known.roots for v in roots))


def _rounded(lp: Program, n_own: int, count: int, *, upwards: bool) -> Int64Array | None:
    """Round the allocation that is nearest to an integer, and solve again, until all are integral.

    The first `n_own` columns are rounded; the first of all is `count`.
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
    """Return the first columns of an optimum, None if there is none or the time was up."""
    return lp.solution()[0][:n_own] if _run(lp) == OPTIMAL else None


def _run(lp: Program) -> object:
    """Solve, charge the work to the budget, and return the status."""
    status = lp.run(least_s=_LEAST_S)
    iterations = lp.iterations + _INTERIOR * int(lp.solver.getInfo().ipm_iteration_count)
    context().spend((1 + iterations) * _ITERATION_WORK * lp.n_rows)
    return status
