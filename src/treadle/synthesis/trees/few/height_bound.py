"""Upper bound for trees within a height, by dual prices and the cheapest trees at them.

At prices y of the links, all data take at least sum(w(r) * cheapest tree of r) / sum(y * bandwidth): the dual
of the program of trees. Cheapest trees within a height are found by branch and bound on the layers of
their ranks (L. Gouveia, "Multicommodity flow models for spanning trees with hop constraints", EJOR 95, 1996);
prices are integers, so that a bound of the branches is one of the tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from treadle.arrays import Int64Array
from treadle.context import context
from treadle.math.lp import Program
from treadle.synthesis.trees.few.bounded_height_lp import BoundedHeightLp, BoundedHeightTrees
from treadle.synthesis.trees.few.hop_prices import Floats

MOST_PLACES = 2048
"""Pairs of ranks times heights up to which cheapest trees are computed, in a second for each root."""

_SCALE = 10**6
_MOST_NODES = 500
_TOLERANCE = 1e-6
_NEAR = 1e-4


@dataclass(frozen=True, eq=False)
class BoundedTrees:
    """Trees within a height, and an upper bound on any trees within it.

    Parameters
    ----------
    found : BoundedHeightTrees
    rate : Fraction
        Bytes/s of a unit of weight of every root.
    """

    found: BoundedHeightTrees
    rate: Fraction


def bounded(found: BoundedHeightTrees, *, rounds: int = 30) -> BoundedTrees | None:
    """Add cheaper trees by branch and bound until they meet the bound; None with too many ranks."""
    program = found.program
    n = len(program.problem.terminals)
    if n * n * program.height > MOST_PLACES:
        return None
    best, prices, is_mixed = None, found.prices, False
    for number in range(rounds):
        context().report("cheapest low trees", number, rounds)
        rate, added = _priced(program, prices)
        best = rate if best is None or (rate is not None and rate < best) else best
        values, duals, _ = program.solve()
        found = BoundedHeightTrees(program, values[1:], float(values[0]), duals)
        attained = float(program.problem.bandwidths.max()) / found.time
        # at mixed prices, which converge sooner, no tree may be new although one is at the duals
        if not (added or is_mixed) or (best is not None and float(best) <= attained * (1 + _NEAR)):
            break
        is_mixed = number % 2 == 1
        prices = (prices + duals) / 2 if is_mixed else duals
    return None if best is None else BoundedTrees(found, best)


def _priced(program: BoundedHeightLp, duals: Floats) -> tuple[Fraction | None, int]:
    """Return the bound at integral prices near these, and how many of the cheapest trees are new."""
    problem = program.problem
    prices = np.floor(duals / duals.max() * _SCALE)
    cost, _ = program.hops.at(prices)
    total, added = 0, 0
    for root in program.roots.tolist():
        context().report("cheapest low trees", 0, 0)
        least, parent = least_tree(cost, root, program.height)
        total += int(problem.weights[root]) * least
        if parent is not None:
            added += program.add_tree(root, parent, prices)
    capacity = sum(int(y) * b for y, b in zip(prices.tolist(), problem.bandwidths.tolist(), strict=True))
    return (Fraction(capacity, total) if total else None), added


def least_tree(cost: Floats, root: int, height: int) -> tuple[int, Int64Array | None]:
    """Return a lower bound on the integral cost of an out-tree of a root, and a cheap tree."""
    n = len(cost)
    lp = Program(mip_rel_gap=0.0, mip_max_nodes=_MOST_NODES)
    others = [rank for rank in range(n) if rank != root]
    # the columns say at which depth each rank is, then which hops lead there
    column_of = {
        (rank, depth): lp.column(upper=1.0)
        for depth in range(1, height + 1)
        for rank in others
        if depth > 1 or np.isfinite(cost[root, rank])
    }
    lp.make_integer(0, lp.n_columns)
    for rank in others:
        columns = [column_of[rank, depth] for depth in range(1, height + 1) if (rank, depth) in column_of]
        lp.row(1.0, 1.0, columns, np.ones(len(columns)))
    hop_of: dict[int, tuple[int, int]] = {}
    for (rank, depth), column in column_of.items():
        above = [root] if depth == 1 else [v for v in others if (v, depth - 1) in column_of]
        above = [v for v in above if np.isfinite(cost[v, rank])]
        hops = [lp.column(float(cost[v, rank]), upper=1.0) for v in above]
        lp.row(0.0, 0.0, [*hops, column], [*np.ones(len(above)), -1.0])
        for hop, v in zip(hops, above, strict=True):
            hop_of[hop] = v, rank
            if v != root:
                lp.row(-np.inf, 0.0, [hop, column_of[v, depth - 1]], [1.0, -1.0])
    lp.run()
    bound = lp.integer_bound
    # the solver may take a millionth of a hop from a rank that is not there: its tolerance
    slack = _TOLERANCE * (1 + n * float(cost[np.isfinite(cost)].max(initial=0)))
    least = max(0, ceil(bound - slack)) if np.isfinite(bound) else 0
    if not lp.is_feasible:
        return least, None
    parent = np.full(n, -1, dtype=np.int64)
    for column, value in enumerate(lp.solution()[0].tolist()):
        if value > 0.5 and column in hop_of:
            parent[hop_of[column][1]] = hop_of[column][0]
    return least, parent
