"""Number of trees per root, and capacities in trees for the pipeline."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import merge
from itertools import chain, count, groupby, islice, repeat
from math import ceil

import numpy as np

from treadle.arrays import Int64Array, distinct
from treadle.context import UNLIMITED, under
from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective
from treadle.synthesis import trees as forestcoll
from treadle.synthesis.trees.fixed_trees import (
    FixedTreesOptimum,
    best_first,
    exact_choices,
    exact_scale,
    fixed_trees_optimum,
    floor_capacities,
    known_cuts,
    scale_bound,
)
from treadle.synthesis.trees.instance import Instance, check_units, find_violated_cut, instance_of
from treadle.synthesis.trees.optimality import Optimum, instance_optimum
from treadle.synthesis.trees.switch_removal import check_balance, unbalanced_relay
from treadle.synthesis.trees.tree_budget import (
    DYADIC_LOSS,
    MAX_TREES,
    MOST_SCANNED,
    TreeBudget,
    most_trees,
)
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.balance import balanced_capacities


def tree_choices(problem: Instance, best: Optimum, budget: TreeBudget) -> Iterator[FixedTreesOptimum]:
    """Yield numbers of trees to try, the preferred ones first."""
    if budget.trees is not None:
        return best_first(problem, best, [budget.trees])
    if budget.exact:
        return exact_choices(problem, best)
    if budget.max_trees is not None:
        return _best_within(problem, best, budget.max_trees)
    return chain(_dyadic(problem, best, budget), _usual(problem, best))


def _best_within(problem: Instance, best: Optimum, limit: int) -> Iterator[FixedTreesOptimum]:
    exact = next(exact_choices(problem, best))
    known = [exact] if exact.trees <= limit else []
    return best_first(problem, best, range(1, min(limit, MOST_SCANNED) + 1), known)


def _usual(problem: Instance, best: Optimum) -> Iterator[FixedTreesOptimum]:
    """Yield the optimum within the default limits, else the best numbers.

    The limits are per rank on average: a broadcast has all its trees at one root.
    """
    ranks, weight = len(problem.terminals), int(problem.weights.sum())
    exact = exact_choices(problem, best)
    first = next(exact)
    if first.trees * weight <= MAX_TREES * ranks:
        yield from chain([first], exact)
    else:
        yield from _best_within(problem, best, most_trees(ranks, weight))


def _dyadic(problem: Instance, best: Optimum, budget: TreeBudget) -> Iterator[FixedTreesOptimum]:
    """Yield powers of two of chunks: those that lose nothing, then those that lose little; fewest first."""
    weights: list[int] = problem.weights.tolist()
    few = budget.lossy_numbers(weights)
    least, cuts = best.algbw * (1 - budget.dyadic_loss), known_cuts(problem, best)
    near: list[FixedTreesOptimum] = []
    for trees in budget.dyadic_numbers(weights, MAX_TREES):
        most = sum(weights) * trees / scale_bound(best.rate, trees, cuts)
        if most == best.algbw or (trees in few and most > least):
            fixed = fixed_trees_optimum(problem, best, trees, cuts)
            if fixed.algbw == best.algbw:
                yield fixed
            elif trees in few and fixed.algbw > least:
                near.append(fixed)
    yield from near


def exact_number(problem: Instance, best: Optimum) -> int:
    """Return the number of trees with which the optimum is built."""
    try:
        with under(UNLIMITED):
            return first_possible(problem, exact_choices(problem, best)).fixed.trees
    except InfeasibleError:  # more units than fit 64 bits
        return exact_scale(problem, best).trees


def dyadic_alternative(topology: Topology, collective: Collective) -> tuple[int, Fraction]:
    """Choose among 1, 2, 4, 8 and 16 trees per unit of weight the fewest that lose less than 1%, else the
    best.

    Returns
    -------
    tuple of (number, share of the optimum that is lost)
    """
    problem = instance_of(topology, collective)
    best = instance_optimum(problem)
    choices = [fixed_trees_optimum(problem, best, 2**exponent) for exponent in range(5)]
    near = [fixed for fixed in choices if fixed.algbw > best.algbw * (1 - DYADIC_LOSS)]
    taken = near[0] if near else max(choices, key=lambda fixed: fixed.algbw)
    return taken.trees, 1 - taken.algbw / best.algbw


def common_number(problems: Sequence[Instance], limit: int) -> int:
    """Return the number of trees, up to the limit, for which the problems in turn take minimum total time."""
    optima = [instance_optimum(problem) for problem in problems]
    cuts = [known_cuts(problem, best) for problem, best in zip(problems, optima, strict=True)]

    def time_lower_bound(trees: int) -> Fraction:
        scales = (scale_bound(best.rate, trees, known) for best, known in zip(optima, cuts, strict=True))
        return sum(scales, Fraction(0)) / trees

    taken: list[tuple[Fraction, int]] = []
    numbers = range(1, min(limit, MOST_SCANNED) + 1)
    for bound, trees in sorted((time_lower_bound(trees), trees) for trees in numbers):
        if taken and (bound, trees) >= min(taken):
            break
        fixed = map(fixed_trees_optimum, problems, optima, repeat(trees), cuts)
        taken.append((sum((each.scale for each in fixed), Fraction(0)) / trees, trees))
    return min(taken)[1]


_MOST_PROGRAMS = 16
"""Integer programs for balanced capacities, of as many numbers of trees."""

_MOST_SCALES = 2**10
"""Scales above the lower bound that are distinguished."""


@dataclass(frozen=True)
class TreeUnits:
    """Capacities in trees that the pipeline can work with.

    Parameters
    ----------
    fixed : FixedTreesOptimum
    capacities : array of int64, shape (m,)
    note : str
        Change of capacities where floor(U b) left some relay unbalanced, or "".
    """

    fixed: FixedTreesOptimum
    capacities: Int64Array
    note: str = ""


def first_possible(problem: Instance, choices: Iterator[FixedTreesOptimum]) -> TreeUnits:
    """Return the first choice whose capacities are balanced, or can be balanced and still hold the trees.

    If there is none, return the first choice at the least larger scale that has such capacities.

    Raises
    ------
    InfeasibleError
        If a relay is not balanced, or there are too many units.
    """
    check_balance(problem, problem.bandwidths)
    preferred: list[FixedTreesOptimum] = []
    for number, fixed in enumerate(choices):
        preferred.append(fixed)
        floors = floor_capacities(problem.bandwidths, fixed.scale)
        check_units(floors.tolist(), [fixed.trees * int(problem.weights.sum())])
        if unbalanced_relay(problem, floors) is None:
            return TreeUnits(fixed, floors)
        found = _balanced(problem, floors, fixed.trees, by_program=number < _MOST_PROGRAMS)
        if found is not None:
            return TreeUnits(fixed, found, "surplus of capacities floor(U b) was trimmed, without loss")
    units = _next_scale(problem, preferred[0])
    check_units(units.capacities.tolist(), [units.fixed.trees * int(problem.weights.sum())])
    return units


def _balanced(
    problem: Instance, floors: Int64Array, trees: int, *, by_program: bool = True
) -> Int64Array | None:
    """Return balanced capacities up to the floors that hold the trees; None if none were found.

    The surplus of relays is removed where it costs least; if that violates a cut, an integer program decides.
    """
    trimmed = balanced_capacities(problem.tails, problem.heads, floors, problem.relays.tolist())
    if find_violated_cut(problem, trimmed, multiplicity=trees) is None:
        return trimmed
    return forestcoll.capacities_within(problem, floors, trees) if by_program else None


def _next_scale(problem: Instance, fixed: FixedTreesOptimum) -> TreeUnits:
    """Return the trees at the least larger scale whose floors can be balanced and hold them.

    A larger scale has at least the capacities of a smaller one, so bisection finds it. A scale that makes all
    capacities integral is always enough.
    """
    divisor = int(np.gcd.reduce(problem.bandwidths))
    integral = Fraction(ceil(fixed.scale * divisor), divisor)
    found = {integral: floor_capacities(problem.bandwidths, integral)}

    def is_enough(scale: Fraction) -> bool:
        balanced = _balanced(problem, floor_capacities(problem.bandwidths, scale), fixed.trees)
        if balanced is not None:
            found[scale] = balanced
        return balanced is not None

    scales = [s for s in islice(_breakpoints(problem, fixed.scale), _MOST_SCALES) if s < integral]
    scale = [*scales, integral][bisect_left(scales, True, key=is_enough)]
    algbw = Fraction(int(problem.weights.sum()) * fixed.trees) / scale
    note = (
        f"no capacities up to floor(U b) of {fixed.trees} trees per root pass every switch evenly; the next "
        f"larger ones that do cost {float(1 - algbw / fixed.algbw):.2%}"
    )
    return TreeUnits(FixedTreesOptimum(fixed.trees, scale, algbw), found[scale], note)


def _breakpoints(problem: Instance, scale: Fraction) -> Iterator[Fraction]:
    """Yield the scales above `scale` at which some floor grows, rising."""

    def multiples(bandwidth: int) -> Iterator[Fraction]:
        first = bandwidth * scale.numerator // scale.denominator + 1
        return (Fraction(number, bandwidth) for number in count(first))

    merged = merge(*map(multiples, distinct(problem.bandwidths).tolist()))
    return (each for each, _ in groupby(merged))
