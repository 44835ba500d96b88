"""The best throughput with a fixed number of trees per root, exactly.

With k trees per unit of weight and U trees per byte/s a link holds floor(U b) of them. The least U whose
floors satisfy every cut is found by Newton's iteration on cuts: U starts at k / x*, and each violated cut
raises it to the least breakpoint j / b at which this cut is satisfied. No smaller U satisfies that cut, so U
never passes the optimum and ends at it. Source: dissertation, appendix B.5.4 (Theorems 33 and 34);
docs/algorithms/forestcoll.md, "Fixed k".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush
from itertools import count
from math import lcm

import numpy as np

from treadle.arrays import Int32Array, Int64Array, distinct, mask_of, sums_of
from treadle.synthesis.trees.instance import UNIT_LIMIT, Instance, cut_weight, find_violated_cut
from treadle.synthesis.trees.optimality import Optimum

_RANK_CUTS = 16

_MOST_TRIALS = 8
"""Numbers of trees below that of `exact_scale` that are tried for the optimum."""

_QUICK = 2**20
"""Terminals times arcs below which a trial takes milliseconds."""


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
    # x* = p/q: U b and U x* are whole just if U is a multiple of q / gcd(p, all b)
    common = np.gcd(best.rate.numerator, divisor)
    scale = Fraction(best.rate.denominator, int(common))
    trees = scale * best.rate
    assert trees.denominator == 1
    return FixedTreesOptimum(int(trees), scale, best.algbw)


def exact_choices(problem: Instance, best: Optimum) -> Iterator[FixedTreesOptimum]:
    """Numbers of trees that attain the optimum, rising; the last one makes all capacities whole.

    Notes
    -----
    At the optimum the links of the bottleneck cut are full, so their capacities must be whole: k is a
    multiple of the least number for which they are. Others may be rounded down. On large problems only the
    last one.
    """
    last = exact_scale(problem, best)
    if len(problem.terminals) * len(problem.tails) < _QUICK:
        full = _cut_out_of(problem, np.array(best.witness.nodes, dtype=np.int32)).crossing
        step = lcm(*((bandwidth / best.rate).denominator for bandwidth in full))
        for trees in range(step, last.trees, step)[:_MOST_TRIALS]:
            capacities = floor_capacities(problem.bandwidths, trees / best.rate)
            if find_violated_cut(problem, capacities, multiplicity=trees) is None:
                yield FixedTreesOptimum(trees, trees / best.rate, best.algbw)
    yield last


@dataclass(frozen=True)
class Cut:
    """The links out of a set by bandwidth, and the weight w(S) of its terminals."""

    crossing: Counter[int]
    weight: int


def best_first(
    problem: Instance, best: Optimum, numbers: Iterable[int], known: Iterable[FixedTreesOptimum] = ()
) -> Iterator[FixedTreesOptimum]:
    """Yield the optima with these numbers of trees, the best first, then the fewest trees.

    Parameters
    ----------
    numbers : iterable of int
        Each k >= 1; an optimum is computed when nothing better is left.
    known : iterable of FixedTreesOptimum
        These take part.

    Notes
    -----
    Cuts that one number violated bound the others.
    """
    total, cuts = int(problem.weights.sum()), known_cuts(problem, best)
    order = count()  # of entries alike in value and trees
    heap: list[tuple[Fraction, int, int, FixedTreesOptimum | None]] = [
        (-one.algbw, one.trees, next(order), one) for one in known
    ]
    # an entry without a result stands by its bound: if it comes up first, it is worth solving
    heap += [(-total * trees / scale_bound(best, trees, cuts), trees, next(order), None) for trees in numbers]
    heapify(heap)
    while heap:
        _, trees, _, found = heappop(heap)
        if found is not None:
            yield found
            continue
        found = fixed_trees_optimum(problem, best, trees, cuts)
        heappush(heap, (-found.algbw, trees, next(order), found))


def fixed_trees_optimum(
    problem: Instance, best: Optimum, trees: int, cuts: list[Cut] | None = None
) -> FixedTreesOptimum:
    """The least U such that capacities floor(U b_e) hold k trees per unit of weight at every root.

    Parameters
    ----------
    cuts : list of Cut, optional
        Some that are known; those that were violated on the way are added.

    Notes
    -----
    Theorems 33-34. Newton on violated cuts: U starts at its lower bound k / x* and rises to the least value
    that satisfies each cut in turn, a breakpoint j / b_e; it never passes U*, so the last value is exact.
    """
    cuts = [] if cuts is None else cuts
    scale = scale_bound(best, trees, cuts)
    first = 0
    while True:
        capacities = floor_capacities(problem.bandwidths, scale)
        violated = find_violated_cut(problem, capacities, multiplicity=trees, first=first)
        if violated is None:
            break
        first, nodes = violated
        cuts.append(_cut_out_of(problem, nodes))
        scale = least_scale(cuts[-1].crossing, trees * cuts[-1].weight, scale)
    total = int(problem.weights.sum())
    return FixedTreesOptimum(trees, scale, Fraction(total * trees) / scale)


def _cut_out_of(problem: Instance, nodes: Int32Array) -> Cut:
    inside = mask_of(problem.n_nodes, nodes)
    crossing = problem.bandwidths[inside[problem.tails] & ~inside[problem.heads]]
    return Cut(Counter(crossing.tolist()), cut_weight(problem, nodes))


def scale_bound(best: Optimum, trees: int, cuts: Iterable[Cut]) -> Fraction:
    """U is not less than this, by cuts that are known."""
    scale = trees / best.rate
    for cut in cuts:
        scale = least_scale(cut.crossing, trees * cut.weight, scale)
    return scale


def known_cuts(problem: Instance, best: Optimum) -> list[Cut]:
    """The bottleneck cut, and the cuts around those ranks that need their links most."""
    total, enters = int(problem.weights.sum()), problem.tails != problem.heads
    entering = sums_of(
        problem.n_nodes, problem.heads[enters], problem.bandwidths[enters].astype(float), float
    )
    # a rank whose shard is all there is takes nothing in, and may have no link to take it by
    takes = np.flatnonzero(problem.weights < total)
    need = (total - problem.weights[takes]) / entering[problem.terminals[takes]]
    cuts = [_cut_out_of(problem, np.array(best.witness.nodes, dtype=np.int32))]
    for place in takes[np.argsort(-need, kind="stable")][:_RANK_CUTS].tolist():
        links = problem.bandwidths[enters & (problem.heads == problem.terminals[place])]
        cuts.append(Cut(Counter(links.tolist()), total - int(problem.weights[place])))
    return cuts


def floor_capacities(bandwidths: Int64Array, scale: Fraction) -> Int64Array:
    """floor(scale * b), exact, shape (m,); from UNIT_LIMIT on, where no cut can bind, just UNIT_LIMIT."""
    values = distinct(bandwidths)
    scaled = [min(value * scale.numerator // scale.denominator, UNIT_LIMIT) for value in values.tolist()]
    return np.array(scaled, dtype=np.int64)[np.searchsorted(values, bandwidths)]


def least_scale(crossing: Counter[int], demand: int, scale: Fraction) -> Fraction:
    """The least U >= scale with sum of count * floor(U b) >= demand over the cut's links."""
    scale = max(scale, Fraction(demand, sum(b * count for b, count in crossing.items())))
    while sum(count * (b * scale.numerator // scale.denominator) for b, count in crossing.items()) < demand:
        scale = min(Fraction(b * scale.numerator // scale.denominator + 1, b) for b in crossing)
    return scale
