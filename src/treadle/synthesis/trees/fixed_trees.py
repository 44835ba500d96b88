"""The best throughput with a fixed number of trees per root, exactly.

With k trees per unit of weight and U trees per byte/s a link holds floor(U b) of them. The least U whose
floors satisfy every cut is found by Newton's iteration on cuts: U starts at k / x*, and each violated cut
raises it to the least breakpoint j / b at which this cut is satisfied. No smaller U satisfies that cut, so U
never passes the optimum and ends at it. Source: dissertation, appendix B.5.4 (Theorems 33 and 34);
docs/proofs/forestcoll.md, "Fixed k".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush
from itertools import count
from math import gcd, lcm

import numpy as np

from treadle.arrays import Int32Array, Int64Array, distinct, mask_of, sums_of
from treadle.synthesis.trees.instance import UNIT_LIMIT, Instance, find_violated_cut
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
    """Return the smallest k, with its U, that attains the optimum with integral capacities U b_e.

    Source: the second proposition of B.5.1.
    """
    # x* = p/q: U b and U x* are integers if and only if U is a multiple of q / gcd(p, all b)
    common = gcd(best.rate.numerator, int(np.gcd.reduce(problem.bandwidths)))
    scale = Fraction(best.rate.denominator, common)
    trees = scale * best.rate
    assert trees.denominator == 1
    return FixedTreesOptimum(int(trees), scale, best.algbw)


def exact_choices(problem: Instance, best: Optimum) -> Iterator[FixedTreesOptimum]:
    """Yield numbers of trees that attain the optimum, rising; the last one makes all capacities integral.

    At the optimum the links of the bottleneck cut are full, so their capacities must be integers: k is a
    multiple of the least number for which they are. Other capacities may be rounded down. On large problems
    only the last number is yielded.
    """
    last = exact_scale(problem, best)
    if len(problem.terminals) * len(problem.tails) < _QUICK:
        full = _cut_out_of(problem, best.certificate.nodes).links
        step = lcm(*((bandwidth / best.rate).denominator for bandwidth in full))
        for trees in range(step, last.trees, step)[:_MOST_TRIALS]:
            capacities = floor_capacities(problem.bandwidths, trees / best.rate)
            if find_violated_cut(problem, capacities, multiplicity=trees) is None:
                yield FixedTreesOptimum(trees, trees / best.rate, best.algbw)
    yield last


@dataclass(frozen=True)
class Cut:
    """A cut, or a class of cuts that agree in bandwidths and shard weight.

    Parameters
    ----------
    links : Counter of int
        Number of links of each bandwidth.
    demand : int
        Weight of the shards that must cross the cut.
    nodes : tuple of int
        Nodes on the far side, if they are needed.
    """

    links: Counter[int]
    demand: int
    nodes: tuple[int, ...] = ()

    @property
    def rate(self) -> Fraction:
        """Bandwidth per unit of shard weight, bytes/s."""
        return Fraction(sum(b * count for b, count in self.links.items()), self.demand)

    def units(self, scale: Fraction) -> int:
        """Sum of floor(U b) over the links."""
        return sum(count * (b * scale.numerator // scale.denominator) for b, count in self.links.items())


def best_first(
    problem: Instance, best: Optimum, numbers: Iterable[int], known: Iterable[FixedTreesOptimum] = ()
) -> Iterator[FixedTreesOptimum]:
    """Yield the optima with these numbers of trees and those known, the best first, then the fewest trees.

    An optimum is computed when nothing better is left. Cuts that one number violated bound the others.
    """
    total, cuts = int(problem.weights.sum()), known_cuts(problem, best)
    order = count()  # separates entries of equal value and number of trees
    heap: list[tuple[Fraction, int, int, FixedTreesOptimum | None]] = [
        (-fixed.algbw, fixed.trees, next(order), fixed) for fixed in known
    ]
    # an entry without a result is ordered by its bound: if it comes first, it is worth solving
    heap += [
        (-total * trees / scale_bound(best.rate, trees, cuts), trees, next(order), None) for trees in numbers
    ]
    heapify(heap)
    while heap:
        _, trees, _, fixed = heappop(heap)
        if fixed is not None:
            yield fixed
            continue
        fixed = fixed_trees_optimum(problem, best, trees, cuts)
        heappush(heap, (-fixed.algbw, trees, next(order), fixed))


def fixed_trees_optimum(
    problem: Instance, best: Optimum, trees: int, cuts: list[Cut] | None = None
) -> FixedTreesOptimum:
    """Return the least U such that capacities floor(U b_e) hold k trees per unit of weight at every root.

    Theorems 33-34. Newton on violated cuts: U starts at its lower bound k / x* and rises to the least value
    that satisfies each cut in turn, a breakpoint j / b_e; it never passes U*, so the last value is exact.
    Violated cuts are added to `cuts`.
    """
    cuts = [] if cuts is None else cuts
    scale = scale_bound(best.rate, trees, cuts)
    first = 0
    while violated := find_violated_cut(
        problem, floor_capacities(problem.bandwidths, scale), multiplicity=trees, first=first
    ):
        first, nodes = violated
        cuts.append(_cut_out_of(problem, nodes))
        scale = least_scale(cuts[-1].links, trees * cuts[-1].demand, scale)
    return FixedTreesOptimum(trees, scale, Fraction(int(problem.weights.sum()) * trees) / scale)


def _cut_out_of(problem: Instance, nodes: Int32Array | tuple[int, ...]) -> Cut:
    inside = mask_of(problem.n_nodes, np.array(nodes, dtype=np.int32))
    crossing = problem.bandwidths[inside[problem.tails] & ~inside[problem.heads]]
    return Cut(Counter(crossing.tolist()), int(problem.weights[inside[problem.terminals]].sum()))


def scale_bound(rate: Fraction, trees: int, cuts: Iterable[Cut]) -> Fraction:
    """Return the least U with which floor(U b) holds `trees` trees per unit of weight in these cuts."""
    scale = trees / rate
    for cut in cuts:  # a larger U keeps the cuts that a smaller one satisfies, so one pass is enough
        scale = least_scale(cut.links, trees * cut.demand, scale)
    return scale


def known_cuts(problem: Instance, best: Optimum) -> list[Cut]:
    """Return the bottleneck cut, and the cuts around the ranks that need their links most."""
    total, enters = int(problem.weights.sum()), problem.tails != problem.heads
    bandwidths = problem.bandwidths[enters].astype(float)
    entering = sums_of(problem.n_nodes, problem.heads[enters], bandwidths, float)
    # a rank that owns all data receives nothing, and may have no ingress
    takes = np.flatnonzero(problem.weights < total)
    need = (total - problem.weights[takes]) / entering[problem.terminals[takes]]
    cuts = [_cut_out_of(problem, best.certificate.nodes)]
    for rank in takes[np.argsort(-need, kind="stable")][:_RANK_CUTS].tolist():
        links = problem.bandwidths[enters & (problem.heads == problem.terminals[rank])]
        cuts.append(Cut(Counter(links.tolist()), total - int(problem.weights[rank])))
    return cuts


def floor_capacities(bandwidths: Int64Array, scale: Fraction) -> Int64Array:
    """Return floor(scale * b), exact, shape (m,); at most UNIT_LIMIT, from where on no cut can bind."""
    values = distinct(bandwidths)
    scaled = [min(value * scale.numerator // scale.denominator, UNIT_LIMIT) for value in values.tolist()]
    return np.array(scaled, dtype=np.int64)[np.searchsorted(values, bandwidths)]


def least_scale(crossing: Counter[int], demand: int, scale: Fraction) -> Fraction:
    """Return the least U >= scale with sum of count * floor(U b) >= demand over the cut's links."""
    scale = max(scale, Fraction(demand, sum(b * count for b, count in crossing.items())))
    while sum(count * (b * scale.numerator // scale.denominator) for b, count in crossing.items()) < demand:
        scale = min(Fraction(b * scale.numerator // scale.denominator + 1, b) for b in crossing)
    return scale
