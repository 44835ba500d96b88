"""Number of trees per root, and capacities in trees for the pipeline."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, islice
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
    """Numbers of trees to try, those to be preferred first."""
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
    """The optimum within the default limits, else the best.

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
    """Powers of two of chunks: those that lose nothing, then those that lose little; fewest first."""
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
    """The number of trees with which the optimum is built."""
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
    near = [one for one in choices if one.algbw > best.algbw * (1 - DYADIC_LOSS)]
    taken = near[0] if near else max(choices, key=lambda one: one.algbw)
    return taken.trees, 1 - taken.algbw / best.algbw


def common_number(problems: Sequence[Instance], limit: int) -> int:
    """The number of trees, up to the limit, with which the problems take minimum time one after the other."""
    optima = [instance_optimum(problem) for problem in problems]
    cuts = [known_cuts(problem, best) for problem, best in zip(problems, optima, strict=True)]

    def time_lower_bound(trees: int) -> Fraction:
        scales = (scale_bound(best.rate, trees, known) for best, known in zip(optima, cuts, strict=True))
        return sum(scales, Fraction(0)) / trees

    taken: tuple[Fraction, int] | None = None
    most = min(limit, MOST_SCANNED)
    for bound, trees in sorted((time_lower_bound(trees), trees) for trees in range(1, most + 1)):
        if taken is not None and (bound, trees) >= taken:
            break
        fixed = (
            fixed_trees_optimum(problem, best, trees, known)
            for problem, best, known in zip(problems, optima, cuts, strict=True)
        )
        time = sum((one.scale for one in fixed), Fraction(0)) / trees
        taken = min((time, trees), taken or (time, trees))
    assert taken is not None
    return taken[1]


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
        What had to be done where floor(U b) left some relay unbalanced, or "".
    """

    fixed: FixedTreesOptimum
    capacities: Int64Array
    note: str = ""


def first_possible(problem: Instance, choices: Iterator[FixedTreesOptimum]) -> TreeUnits:
    """The first choice whose capacities are balanced, or can be, and stay sufficient.

    Where none is, the first choice at the least scale above its own that will do.

    Raises
    ------
    InfeasibleError
        If a relay is not balanced, or there are too many units.
    """
    check_balance(problem, problem.bandwidths)
    preferred: FixedTreesOptimum | None = None
    for number, fixed in enumerate(choices):
        preferred = preferred or fixed
        floors = floor_capacities(problem.bandwidths, fixed.scale)
        check_units(floors.tolist(), [fixed.trees * int(problem.weights.sum())])
        if unbalanced_relay(problem, floors) is None:
            return TreeUnits(fixed, floors)
        found = _balanced(problem, floors, fixed.trees, by_program=number < _MOST_PROGRAMS)
        if found is not None:
            return TreeUnits(fixed, found, "surplus of capacities floor(U b) was trimmed, without loss")
    assert preferred is not None
    found_higher = _next_scale(problem, preferred)
    check_units(found_higher.capacities.tolist(), [preferred.trees * int(problem.weights.sum())])
    return found_higher


def _balanced(
    problem: Instance, floors: Int64Array, trees: int, *, by_program: bool = True
) -> Int64Array | None:
    """Balanced capacities up to the floors that hold the trees; None if there are none, or none was found.

    First the surplus of relays is taken off where it costs least; where that hurts a cut, an integer program
    decides.
    """
    trimmed = balanced_capacities(problem.tails, problem.heads, floors, problem.relays.tolist())
    if find_violated_cut(problem, trimmed, multiplicity=trees) is None:
        return trimmed
    return forestcoll.capacities_within(problem, floors, trees) if by_program else None


def _next_scale(problem: Instance, fixed: FixedTreesOptimum) -> TreeUnits:
    """Return the trees at the least scale above whose floors can be balanced and hold them.

    More capacity holds what less did, so bisection finds it. One that makes all capacities whole is enough in
    any case.
    """
    divisor = int(np.gcd.reduce(problem.bandwidths))
    whole = Fraction(ceil(fixed.scale * divisor), divisor)
    scales = [scale for scale in islice(_breakpoints(problem, fixed.scale), _MOST_SCALES) if scale < whole]

    best, low, high = (whole, floor_capacities(problem.bandwidths, whole)), 0, len(scales)
    # room that serves one scale serves every larger one: a search by halves
    while low < high:
        middle = (low + high) // 2
        floors = floor_capacities(problem.bandwidths, scales[middle])
        found = _balanced(problem, floors, fixed.trees)
        if found is None:
            low = middle + 1
        else:
            best, high = (scales[middle], found), middle
    scale, capacities = best
    total = int(problem.weights.sum())
    made = FixedTreesOptimum(fixed.trees, scale, Fraction(total * fixed.trees) / scale)
    note = (
        f"no capacities up to floor(U b) of {fixed.trees} trees per root pass every switch evenly; the next "
        f"larger ones that do cost {float(1 - made.algbw / fixed.algbw):.2%}"
    )
    return TreeUnits(made, capacities, note)


def _breakpoints(problem: Instance, scale: Fraction) -> Iterator[Fraction]:
    """The scales above `scale` at which some floor grows, rising."""
    heap = [
        (Fraction(bandwidth * scale.numerator // scale.denominator + 1, bandwidth), bandwidth)
        for bandwidth in distinct(problem.bandwidths).tolist()
    ]
    heapq.heapify(heap)
    last = scale
    while True:
        following, bandwidth = heap[0]
        heapq.heapreplace(heap, (following + Fraction(1, bandwidth), bandwidth))
        if following > last:
            last = following
            yield following
