"""The best throughput with a fixed number of trees per root, exactly."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array
from treadle.synthesis.forestcoll.instance import UNIT_LIMIT, Instance, cut_weight, find_violated_cut
from treadle.synthesis.forestcoll.optimality import Optimum


@dataclass(frozen=True)
class FixedTreesOptimum:
    """The optimum with k trees per unit of shard weight.

    Parameters
    ----------
    trees : int
        k.
    scale : Fraction
        U*: trees per byte/s of bandwidth; link e takes floor(U* b_e) trees.
    algbw : Fraction
        W k / U*, bytes/s.
    """

    trees: int
    scale: Fraction
    algbw: Fraction


def exact_scale(problem: Instance, best: Optimum) -> FixedTreesOptimum:
    """The smallest k, with its U, that attains the optimum with capacities U b_e all integers.

    Source: the second proposition of B.5.1.
    """
    divisor = int(np.gcd.reduce(problem.bandwidths))
    common = np.gcd(best.rate.numerator, divisor)
    scale = Fraction(best.rate.denominator, int(common))
    trees = scale * best.rate
    assert trees.denominator == 1
    return FixedTreesOptimum(int(trees), scale, best.algbw)


def fixed_trees_optimum(problem: Instance, best: Optimum, trees: int) -> FixedTreesOptimum:
    """The least U such that capacities floor(U b_e) hold k trees per unit of weight at every root.

    Notes
    -----
    Theorems 33-34. Newton on violated cuts: U starts at its lower bound k / x* and rises to the least value
    that satisfies each cut in turn, a breakpoint j / b_e; it never passes U*, so the last value is exact.
    """
    scale = trees / best.rate
    first = 0
    while True:
        capacities = floor_capacities(problem.bandwidths, scale)
        violated = find_violated_cut(problem, capacities, multiplicity=trees, first=first)
        if violated is None:
            break
        first, nodes = violated
        inside = np.zeros(problem.n_nodes, dtype=bool)
        inside[nodes] = True
        crossing = problem.bandwidths[inside[problem.tails] & ~inside[problem.heads]]
        scale = least_scale(Counter(crossing.tolist()), trees * cut_weight(problem, nodes), scale)
    total = int(problem.weights.sum())
    return FixedTreesOptimum(trees, scale, Fraction(total * trees) / scale)


def floor_capacities(bandwidths: Int64Array, scale: Fraction) -> Int64Array:
    """floor(scale * b), exact, shape (m,); from UNIT_LIMIT on, where no cut can bind, just UNIT_LIMIT."""
    values, place = np.unique(bandwidths, return_inverse=True)
    scaled = [min(value * scale.numerator // scale.denominator, UNIT_LIMIT) for value in values.tolist()]
    return np.array(scaled, dtype=np.int64)[place]


def least_scale(crossing: Counter[int], demand: int, scale: Fraction) -> Fraction:
    """The least U >= scale with sum of count * floor(U b) >= demand over the cut's links."""
    scale = max(scale, Fraction(demand, sum(b * count for b, count in crossing.items())))
    while sum(count * (b * scale.numerator // scale.denominator) for b, count in crossing.items()) < demand:
        scale = min(Fraction(b * scale.numerator // scale.denominator + 1, b) for b in crossing)
    return scale
